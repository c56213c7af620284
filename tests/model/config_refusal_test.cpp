#include "attnctl/model/model.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "support/memory_checkpoint.hpp"
#include "support/refusal.hpp"

using attnctl::Status;
using attnctl::test::MemoryModel;

TEST_CASE("bad configurations are refused with file and JSON pointer, before anything is allocated") {
  struct Row {
    const char* model;
    const char* patch;
    Status status;
    std::vector<std::string_view> parts;
  };
  for (
      const Row& row : std::vector<Row>{
          // 87
          {"llama",
           R"({"num_attention_heads": 0})",
           Status::bad_input,
           {"config.json: /num_attention_heads: got 0"}},
          {"llama",
           R"({"num_attention_heads": -1})",
           Status::bad_input,
           {"/num_attention_heads: got -1", "at least 1"}},
          {"llama",
           R"({"num_attention_heads": 6.5})",
           Status::bad_input,
           {"/num_attention_heads: got 6.5", "integer"}},
          {"llama",
           R"({"num_attention_heads": "6"})",
           Status::bad_input,
           {"/num_attention_heads: got \"6\""}},
          {"llama", R"({"num_attention_heads": null})", Status::bad_input, {"/num_attention_heads: missing"}},
          {"gpt2", R"({"n_head": 0})", Status::bad_input, {"/n_head: got 0"}},
          {"bert", R"({"hidden_size": -24})", Status::bad_input, {"/hidden_size: got -24"}},
          {"attention", R"({"heads": 0})", Status::bad_input, {"/heads: got 0"}},
          {"llama",
           R"({"hidden_size": 18446744073709551615})",
           Status::limit,
           {"/hidden_size: got 18446744073709551615"}},
          {"llama", R"({"head_dim": 1073741824})", Status::limit, {"/head_dim: got 1073741824"}},
          // 88
          {"bert",
           R"({"num_attention_heads": 5})",
           Status::bad_input,
           {"/hidden_size: got 24", "multiple of /num_attention_heads (5)"}},
          {"gpt2", R"({"n_head": 4})", Status::bad_input, {"/n_embd: got 15", "multiple of /n_head (4)"}},
          {"attention", R"({"heads": 5})", Status::bad_input, {"\"W_q\"", "multiple of 5 (/heads"}},
          // 89
          {"llama",
           R"({"num_key_value_heads": 4})",
           Status::bad_input,
           {"/num_attention_heads: got 6", "multiple of /num_key_value_heads (4)"}},
          {"attention", R"({"kv_heads": 2})", Status::bad_input, {"/heads: got 3", "/kv_heads (2)"}},
          // 90
          {"llama",
           R"({"num_hidden_layers": 1000000000})",
           Status::limit,
           {"/num_hidden_layers: got 1000000000"}},
          {"albert", R"({"num_hidden_layers": 1000000000})", Status::limit, {"/num_hidden_layers"}},
          {"attention", R"({"layers": 1000000000})", Status::limit, {"/layers: got 1000000000"}},
          {"llama",
           R"({"num_hidden_layers": 10000})",
           Status::bad_input,
           {"layers.2.self_attn.q_proj.weight", "more"}},
          // 91
          {"llama", R"({"rms_norm_eps": 0})", Status::bad_input, {"/rms_norm_eps: got 0", "above 0"}},
          {"llama", R"({"rms_norm_eps": -1e-5})", Status::bad_input, {"/rms_norm_eps: got -1e-05"}},
          {"llama", R"({"rms_norm_eps": 1e-60})", Status::bad_input, {"/rms_norm_eps", "above 0 in float32"}},
          {"llama",
           R"({"rms_norm_eps": "NaN"})",
           Status::bad_input,
           {"/rms_norm_eps: got \"NaN\"", "a number"}},
          {"bert", R"({"layer_norm_eps": 0.0})", Status::bad_input, {"/layer_norm_eps"}},
          {"llama",
           R"({"rope_parameters": {"rope_theta": 0}})",
           Status::bad_input,
           {"/rope_parameters/rope_theta: got 0"}},
          {"llama",
           R"({"rope_parameters": {"rope_theta": -1}})",
           Status::bad_input,
           {"/rope_parameters/rope_theta: got -1"}},
          {"llama",
           R"({"rope_parameters": null, "rope_theta": -2})",
           Status::bad_input,
           {"config.json: /rope_theta: got -2"}},
          {"llama",
           R"({"rope_parameters": {"rope_theta": 1e300}})",
           Status::bad_input,
           {"/rope_parameters", "not finite"}},
          // 92
          {"llama",
           R"({"vocab_size": 40})",
           Status::bad_input,
           {"\"model.embed_tokens.weight\": got shape [39, 24], need [40, 24]", "vocabulary of 40"}},
          {"bert",
           R"({"vocab_size": 36})",
           Status::bad_input,
           {"word_embeddings.weight\": got shape [37, 24]"}},
          {"attention-json",
           R"({"vocab": ["a", "b"]})",
           Status::bad_input,
           {"/vocab: got 2 tokens, need 11"}},
          // 93
          {"llama",
           R"({"model_type": "mamba"})",
           Status::bad_input,
           {"/model_type: unsupported \"mamba\"; supported: albert, attention, bert, gpt2, llama"}},
          {"llama", R"({"model_type": "\u001b[31m"})", Status::bad_input, {"unsupported \"\\x1b[31m\""}},
          {"llama", R"({"model_type": null})", Status::bad_input, {"/model_type: missing"}},
          {"llama", R"({"model_type": 3})", Status::bad_input, {"/model_type"}},
          // what a family does not have
          {"bert",
           R"({"position_embedding_type": "relative_key"})",
           Status::bad_input,
           {"/position_embedding_type: unsupported \"relative_key\""}},
          {"bert",
           R"({"add_cross_attention": true})",
           Status::bad_input,
           {"/add_cross_attention: unsupported true"}},
          {"albert", R"({"inner_group_num": 2})", Status::bad_input, {"/inner_group_num: unsupported 2"}},
          {"bert", R"({"pruned_heads": {"0": [1]}})", Status::bad_input, {"/pruned_heads: unsupported"}},
          {"llama",
           R"({"quantization_config": {"bits": 4}})",
           Status::bad_input,
           {"/quantization_config: unsupported"}},
          {"llama",
           R"({"partial_rotary_factor": 0.5})",
           Status::bad_input,
           {"/partial_rotary_factor: unsupported 0.5"}},
          {"llama",
           R"({"hidden_act": "quick_gelu"})",
           Status::bad_input,
           {"/hidden_act: unsupported \"quick_gelu\"; supported: gelu, ", "silu, swish, relu, tanh"}},
          {"llama", R"({"hidden_act": 1})", Status::bad_input, {"/hidden_act: got 1, need a string"}},
          {"llama",
           R"({"attention_bias": 1})",
           Status::bad_input,
           {"/attention_bias: got 1, need true or false"}},
          {"attention",
           R"({"add_zero_attn": true})",
           Status::bad_input,
           {"/add_zero_attn: unsupported true"}},
          {"attention",
           R"({"position": "rotary"})",
           Status::bad_input,
           {"/position: unsupported \"rotary\""}},
          {"attention", R"({"heads": null})", Status::bad_input, {"/heads: missing"}},
          // rotary scalings
          {"llama",
           R"({"rope_parameters": {"rope_type": "dynamic", "factor": 2}})",
           Status::bad_input,
           {"/rope_parameters/rope_type: unsupported \"dynamic\"; supported: default, linear, llama3, yarn, "
            "longrope"}},
          {"llama",
           R"({"rope_parameters": null, "rope_scaling": {"type": "dynamic"}})",
           Status::bad_input,
           {"/rope_scaling/type: unsupported"}},
          {"llama",
           R"({"rope_parameters": {"rope_type": "linear"}})",
           Status::bad_input,
           {"/rope_parameters/factor: missing"}},
          {"llama",
           R"({"rope_parameters": {"rope_type": "linear", "factor": 0}})",
           Status::bad_input,
           {"/rope_parameters/factor: got 0"}},
          {"llama",
           R"({"rope_parameters": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}})",
           Status::bad_input,
           {"/rope_parameters/high_freq_factor"}},
          {"llama",
           R"({"rope_parameters": {"rope_type": "longrope", "short_factor": [1, 2], "long_factor": [1, 2]}})",
           Status::bad_input,
           {"/rope_parameters/short_factor", "a list of 5 numbers"}},
          {"llama",
           R"({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}})",
           Status::bad_input,
           {"/rope_parameters/full_attention: unsupported"}},
          {"llama",
           R"({"rope_parameters": [1]})",
           Status::bad_input,
           {"/rope_parameters: got [1], need an object"}},
          {"llama", R"({"head_dim": 9})", Status::bad_input, {"head dimension is 9", "even"}},
      }) {
    CAPTURE(std::string(row.model));
    CAPTURE(std::string(row.patch));
    attnctl::test::check_refusal(
        [&] { static_cast<void>(MemoryModel::golden(row.model).patched(row.patch).bound()); }, row.status,
        row.parts);
  }
}

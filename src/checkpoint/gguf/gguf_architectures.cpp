#include <array>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "checkpoint/gguf/gguf_model.hpp"

namespace attnctl {
namespace {

using Kind = GgufKey::Kind;

constexpr GgufName kLlamaNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"attn_norm", "model.layers.{}.input_layernorm"},
    {"attn_q", "model.layers.{}.self_attn.q_proj", GgufOrder::rotary_pairs, "attention.head_count"},
    {"attn_k", "model.layers.{}.self_attn.k_proj", GgufOrder::rotary_pairs, "attention.head_count_kv"},
    {"attn_v", "model.layers.{}.self_attn.v_proj"},
    {"attn_output", "model.layers.{}.self_attn.o_proj"},
    {"ffn_norm", "model.layers.{}.post_attention_layernorm"},
    {"ffn_gate", "model.layers.{}.mlp.gate_proj"},
    {"ffn_up", "model.layers.{}.mlp.up_proj"},
    {"ffn_down", "model.layers.{}.mlp.down_proj"},
};

/// The same names, with rotary heads in two halves.
constexpr auto kQwen2Names = [] {
  auto names = std::to_array(kLlamaNames);
  for (GgufName& name : names) name.order = GgufOrder::as_stored;
  return names;
}();

constexpr GgufKey kLlamaKeys[] = {
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads", Kind::size, false},
    {"attention.key_length", "head_dim", Kind::size, false},
    {"feed_forward_length", "intermediate_size"},
    {"context_length", "max_position_embeddings"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number},
    {"rope.freq_base", "rope_theta", Kind::number, false},
};

constexpr GgufFlag kLlamaFlags[] = {{"blk.0.attn_q.bias", "attention_bias"},
                                    {"blk.0.ffn_up.bias", "mlp_bias"}};

constexpr GgufName kGpt2Names[] = {
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output_norm", "transformer.ln_f"},
    {"output", "lm_head"},
    {"attn_norm", "transformer.h.{}.ln_1"},
    {"attn_qkv", "transformer.h.{}.attn.c_attn", GgufOrder::transposed},
    {"attn_output", "transformer.h.{}.attn.c_proj", GgufOrder::transposed},
    {"ffn_norm", "transformer.h.{}.ln_2"},
    {"ffn_up", "transformer.h.{}.mlp.c_fc", GgufOrder::transposed},
    {"ffn_down", "transformer.h.{}.mlp.c_proj", GgufOrder::transposed},
};

constexpr GgufKey kGpt2Keys[] = {
    {"embedding_length", "n_embd"},     {"block_count", "n_layer"},
    {"attention.head_count", "n_head"}, {"feed_forward_length", "n_inner"},
    {"context_length", "n_positions"},  {"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number},
};

/// Gains are stored as 1 plus the value in a Hugging Face checkpoint.
constexpr GgufName kGemma2Names[] = {
    {"token_embd", "model.embed_tokens"},
    {.gguf = "output_norm", .name = "model.norm", .added = 1},
    {.gguf = "attn_norm", .name = "model.layers.{}.input_layernorm", .added = 1},
    {"attn_q", "model.layers.{}.self_attn.q_proj"},
    {"attn_k", "model.layers.{}.self_attn.k_proj"},
    {"attn_v", "model.layers.{}.self_attn.v_proj"},
    {"attn_output", "model.layers.{}.self_attn.o_proj"},
    {.gguf = "post_attention_norm", .name = "model.layers.{}.post_attention_layernorm", .added = 1},
    {.gguf = "ffn_norm", .name = "model.layers.{}.pre_feedforward_layernorm", .added = 1},
    {"ffn_gate", "model.layers.{}.mlp.gate_proj"},
    {"ffn_up", "model.layers.{}.mlp.up_proj"},
    {"ffn_down", "model.layers.{}.mlp.down_proj"},
    {.gguf = "post_ffw_norm", .name = "model.layers.{}.post_feedforward_layernorm", .added = 1},
};

constexpr GgufKey kGemma2Keys[] = {
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"feed_forward_length", "intermediate_size"},
    {"context_length", "max_position_embeddings"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number},
    {"attention.sliding_window", "sliding_window"},
    {"attn_logit_softcapping", "attn_logit_softcapping", Kind::number, false},
    {"final_logit_softcapping", "final_logit_softcapping", Kind::number, false},
    {"rope.freq_base", "rope_theta", Kind::number, false},
};

/// Sets the scale of scores, which has no key: it follows from the head width, or from d_model / heads in the
/// model with 46 layers.
void complete_gemma2(nlohmann::ordered_json& config) {
  constexpr std::uint64_t kLargest = 46;  // layers of Gemma 2 27B
  const bool largest = config.at("num_hidden_layers") == kLargest;
  config["query_pre_attn_scalar"] = largest ? config.at("hidden_size").get<std::uint64_t>() /
                                                  config.at("num_attention_heads").get<std::uint64_t>()
                                            : config.at("head_dim").get<std::uint64_t>();
}

constexpr GgufArchitecture kArchitectures[] = {
    {.name = "gemma2",
     .names = kGemma2Names,
     .keys = kGemma2Keys,
     .flags = {},
     .rotary = true,
     .complete = complete_gemma2},
    {.name = "gpt2", .names = kGpt2Names, .keys = kGpt2Keys, .flags = {}},
    {.name = "llama", .names = kLlamaNames, .keys = kLlamaKeys, .flags = kLlamaFlags, .rotary = true},
    {.name = "qwen2", .names = kQwen2Names, .keys = kLlamaKeys, .flags = {}, .rotary = true},
};

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() {
  return kArchitectures;
}

}  // namespace attnctl

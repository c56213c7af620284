#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "checkpoint/checkpoint.hpp"
#include "formats/json.hpp"
#include "model/families/family.hpp"
#include "model/model.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

using attnctl::Status;
using attnctl::test::MemoryModel;

namespace {

using attnctl::Status;
using attnctl::model::Activation;
using attnctl::test::MemoryModel;

attnctl::model::ModelConfig resolve(const attnctl::checkpoint::ModelSource& source) {
  return attnctl::model::resolve_config(attnctl::model::family_of(source.config_path.string(), source.config),
                                        source);
}

}  // namespace

TEST_CASE("both spellings of a key, missing keys and nulls resolve to the same model") {
  struct Row {
    const char* model;
    const char* patch;
  };
  for (
      const Row& row : {
          Row{"gpt2", R"({"n_embd": null, "hidden_size": 15, "n_head": null, "num_attention_heads": 3,
                           "n_layer": null, "num_hidden_layers": 2, "n_positions": null, "max_position_embeddings": 12})"},
          Row{"gpt2",
              R"({"n_inner": 60, "scale_attn_weights": null, "layer_norm_epsilon": null, "activation_function": null})"},
          Row{"bert",
              R"({"layer_norm_eps": null, "hidden_act": null, "type_vocab_size": null, "is_decoder": null,
                           "position_embedding_type": "absolute", "pruned_heads": {}})"},
          Row{"llama", R"({"attn_pdrop": 0.3, "attention_dropout": 0.5, "some_new_key": {"a": [1]}})"},
          Row{"llama-old",
              R"({"num_key_value_heads": 2, "head_dim": 10, "rope_theta": 10000, "rope_scaling": {"type": "default"}})"},
      }) {
    CAPTURE(std::string(row.patch));
    const attnctl::model::Model plain = MemoryModel::golden(row.model).bound();
    const attnctl::model::Model changed = MemoryModel::golden(row.model).patched(row.patch).bound();
    CHECK(changed.parameters() == plain.parameters());
    const attnctl::model::LayerConfig& a = plain.config().layers.at(0);
    const attnctl::model::LayerConfig& b = changed.config().layers.at(0);
    CHECK(a.attention.heads == b.attention.heads);
    CHECK(a.attention.kv_heads == b.attention.kv_heads);
    CHECK(a.attention.d_head == b.attention.d_head);
    CHECK(a.attention.scale == b.attention.scale);
    CHECK(a.attention.causal == b.attention.causal);
    CHECK(a.mlp.width == b.mlp.width);
    CHECK(a.mlp.activation == b.mlp.activation);
    CHECK(a.norm.eps == b.norm.eps);
    if (a.attention.rotary)
      CHECK(a.attention.rotary->inverse_frequency == b.attention.rotary->inverse_frequency);
  }
}

TEST_CASE("properties of the forward pass come from the configuration") {
  CHECK(MemoryModel::golden("bert")
            .patched(R"({"is_decoder": true})")
            .bound()
            .config()
            .layers[0]
            .attention.causal);
  CHECK_FALSE(MemoryModel::golden("bert").bound().config().layers[0].attention.causal);
  CHECK(MemoryModel::golden("attention")
            .patched(R"({"causal": true})")
            .bound()
            .config()
            .layers[0]
            .attention.causal);

  const auto scaled = MemoryModel::golden("gpt2-inverse-layer").bound();
  CHECK(scaled.config().layers[0].attention.scale == 0.5);
  CHECK(scaled.config().layers[2].attention.scale == 0.5 / 3);
  CHECK(MemoryModel::golden("gpt2-unscaled").bound().config().layers[0].attention.scale == 1);
  CHECK(MemoryModel::golden("attention-layers").bound().config().layers[1].attention.scale == 0.35);
  CHECK(MemoryModel::golden("attention").bound().config().layers[0].attention.scale == 0.5);  // d_head 4

  CHECK(MemoryModel::golden("llama").bound().config().position_in_scores());
  CHECK_FALSE(MemoryModel::golden("bert").bound().config().position_in_scores());
  CHECK(MemoryModel::golden("llama")
            .patched(R"({"pad_token_id": 0, "eos_token_id": [2, 5, 39, -1]})")
            .bound()
            .config()
            .special_ids == std::vector<std::int64_t>{0, 1, 2, 5});

  const auto albert = MemoryModel::golden("albert").bound();
  std::vector<std::size_t> groups;
  for (const attnctl::model::LayerConfig& layer : albert.config().layers) groups.push_back(layer.stored_as);
  CHECK(groups == std::vector<std::size_t>{0, 0, 0, 1, 1});
}

TEST_CASE("which layers have a window, also for missing and null keys") {
  struct Row {
    const char* model;
    const char* patch;
    std::vector<std::size_t> want;  // 0: all keys
  };
  for (const Row& row : {
           // a null of a patch takes the key away
           Row{"mistral", "{}", {4, 4}},
           Row{"mistral", R"({"sliding_window": null})", {4096, 4096}},
           Row{"mistral-full", "{}", {0, 0}},
           Row{"qwen2", "{}", {0, 3, 3}},
           Row{"qwen2", R"({"layer_types": null, "max_window_layers": 2})", {0, 0, 3}},
           Row{"qwen2", R"({"layer_types": null, "max_window_layers": 0})", {3, 3, 3}},
           Row{"qwen2", R"({"layer_types": null, "max_window_layers": null})", {0, 0, 0}},
           Row{"qwen2", R"({"layer_types": null, "use_sliding_window": null})", {0, 0, 0}},
           Row{"qwen3", "{}", {3, 0}},
           Row{"qwen3-old", "{}", {0, 0}},
       }) {
    CAPTURE(std::string(row.model));
    CAPTURE(std::string(row.patch));
    std::vector<std::size_t> sizes;
    const auto model = MemoryModel::golden(row.model).patched(row.patch).bound();
    for (const attnctl::model::LayerConfig& layer : model.config().layers)
      sizes.push_back(layer.attention.kind.size);
    CHECK(sizes == row.want);
  }
}

TEST_CASE("every activation name resolves") {
  struct Row {
    const char* name;
    Activation want;
  };
  for (const Row& row :
       {Row{"gelu", Activation::gelu_erf}, Row{"gelu_new", Activation::gelu_tanh},
        Row{"gelu_pytorch_tanh", Activation::gelu_tanh}, Row{"gelu_fast", Activation::gelu_tanh},
        Row{"relu", Activation::relu}, Row{"silu", Activation::silu}, Row{"swish", Activation::silu},
        Row{"tanh", Activation::tanh}}) {
    CAPTURE(std::string(row.name));
    const auto model =
        MemoryModel::golden("llama").patched(fmt::format(R"({{"hidden_act": "{}"}})", row.name)).bound();
    CHECK(model.config().layers[0].mlp.activation == row.want);
  }
}

TEST_CASE("every family has a golden model whose configuration resolves without weights") {
  for (const attnctl::model::FamilySpec& family : attnctl::model::families()) {
    CAPTURE(family.name);
    attnctl::checkpoint::ModelSource source = MemoryModel::golden(family.name).source();
    const auto with_weights = resolve(source);
    CHECK(with_weights.family == family.name);
    source.weights.reset();
    if (family.sizes_from_tensors) {
      attnctl::test::check_refusal([&] { static_cast<void>(resolve(source)); }, Status::bad_input,
                                   {"need a weights file"});
      continue;
    }
    const auto without = resolve(source);
    CHECK(without.layers.size() == with_weights.layers.size());
    CHECK(without.layers[0].attention.d_head == with_weights.layers[0].attention.d_head);
    CHECK(without.head.present == with_weights.head.present);
    CHECK(without.head.tied == with_weights.head.tied);
  }
}

TEST_CASE("bad configurations are reported with file and JSON pointer before anything is allocated") {
  struct Row {
    const char* model;
    const char* patch;
    Status status;
    std::vector<std::string_view> parts;
  };
  for (
      const Row& row : std::vector<Row>{
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
          {"bert",
           R"({"num_attention_heads": 5})",
           Status::bad_input,
           {"/hidden_size: got 24", "multiple of /num_attention_heads (5)"}},
          {"gpt2", R"({"n_head": 4})", Status::bad_input, {"/n_embd: got 15", "multiple of /n_head (4)"}},
          {"attention", R"({"heads": 5})", Status::bad_input, {"\"W_q\"", "multiple of 5 (/heads"}},
          {"llama",
           R"({"num_key_value_heads": 4})",
           Status::bad_input,
           {"/num_attention_heads: got 6", "multiple of /num_key_value_heads (4)"}},
          {"attention", R"({"kv_heads": 2})", Status::bad_input, {"/heads: got 3", "/kv_heads (2)"}},
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
          {"llama", R"({"rms_norm_eps": 0})", Status::bad_input, {"/rms_norm_eps: got 0", "above 0"}},
          {"llama", R"({"rms_norm_eps": -1e-5})", Status::bad_input, {"/rms_norm_eps: got -1e-05"}},
          {"llama",
           R"({"rms_norm_eps": 1e-60})",
           Status::bad_input,
           {"/rms_norm_eps", "above 0 and finite in float32"}},
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
          {"llama",
           R"({"model_type": "mamba"})",
           Status::bad_input,
           {"/model_type: unsupported \"mamba\"; supported: albert, attention, "}},
          {"llama", R"({"model_type": "\u001b[31m"})", Status::bad_input, {"unsupported \"\\x1b[31m\""}},
          {"llama", R"({"model_type": null})", Status::bad_input, {"/model_type: missing"}},
          {"llama", R"({"model_type": 3})", Status::bad_input, {"/model_type"}},
          // options that a family does not support
          {"bert",
           R"({"position_embedding_type": "relative_key"})",
           Status::bad_input,
           {"/position_embedding_type: unsupported \"relative_key\""}},
          {"bert",
           R"({"add_cross_attention": true})",
           Status::bad_input,
           {"/add_cross_attention: unsupported true"}},
          {"roberta", R"({"pad_token_id": -1})", Status::bad_input, {"/pad_token_id: got -1"}},
          {"roberta",
           R"({"pad_token_id": 13})",
           Status::bad_input,
           {"/max_position_embeddings: got 14, need more than 14", "/pad_token_id"}},
          {"mistral", R"({"sliding_window": 0})", Status::bad_input, {"/sliding_window: got 0"}},
          {"qwen2",
           R"({"layer_types": ["full_attention"]})",
           Status::bad_input,
           {"/layer_types", "a list of 3"}},
          {"qwen2",
           R"({"layer_types": ["full_attention", "chunked_attention", "full_attention"]})",
           Status::bad_input,
           {"/layer_types: unsupported \"chunked_attention\"; supported: full_attention, sliding_attention"}},
          {"qwen2",
           R"({"use_sliding_window": false})",
           Status::bad_input,
           {"/layer_types", "need full_attention only", "/use_sliding_window is not true"}},
          {"qwen3", R"({"head_dim": 7})", Status::bad_input, {"7", "even"}},
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
           {"/hidden_act: unsupported \"quick_gelu\"; supported: gelu, ", "silu, swish, relu, relu2, tanh"}},
          {"llama",
           R"({"hidden_act": "mish", "rope_parameters": {"rope_type": "dynamic"}, "rms_norm_eps": 0})",
           Status::bad_input,
           {"/hidden_act: unsupported \"mish\"", "/rope_parameters/rope_type: unsupported \"dynamic\"",
            "/rms_norm_eps: got 0"}},
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
          // the message names the keys of the file
          {"gpt_oss",
           R"({"num_local_experts": null, "num_experts": 4, "num_experts_per_tok": null, "experts_per_token": 9})",
           Status::bad_input,
           {"/experts_per_token: got 9", "need at most 4, the number of experts (/num_experts)"}},
          // images
          {"vit", R"({"num_channels": 0})", Status::bad_input, {"/num_channels: got 0"}},
          {"vit", R"({"image_size": [12]})", Status::bad_input, {"/image_size: got [12]", "height, width"}},
          {"vit", R"({"image_size": [12, 0]})", Status::bad_input, {"/image_size: got 0"}},
          {"vit", R"({"patch_size": 13})", Status::bad_input, {"/image_size: got 12 by 12", "/patch_size"}},
          {"vit", R"({"image_size": 1000000})", Status::limit, {"/image_size: got 3 channels of 1000000"}},
          {"vit",
           R"({"image_size": 16})",
           Status::bad_input,
           {"embeddings.position_embeddings", "16 patches"}},
          {"vit", R"({"num_channels": 4})", Status::bad_input, {"projection.weight", "[18, 4, 4, 4]"}},
          // text parts of multimodal models
          {"llava-tower",
           R"({"text_config": 1})",
           Status::bad_input,
           {"/text_config: got 1, need an object"}},
          {"llava-tower",
           R"({"text_config": {"model_type": "llava"}})",
           Status::bad_input,
           {"/text_config/model_type: unsupported \"llava\"", "llama, "}},
          {"llava-tower",
           R"({"text_config": {}})",
           Status::bad_input,
           {"/text_config/model_type: missing", "llama, "}},
          {"llava-tower",
           R"({"quantization_config": {"bits": 4}})",
           Status::bad_input,
           {"/quantization_config: unsupported"}},
          {"llava-tower",
           R"({"text_config": {"model_type": "llama", "hidden_size": -1}})",
           Status::bad_input,
           {"/text_config/hidden_size: got -1"}},
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
          {"llama", R"({"head_dim": 9})", Status::bad_input, {"9 of 9 head dimensions", "even"}},
      }) {
    CAPTURE(std::string(row.model));
    CAPTURE(std::string(row.patch));
    attnctl::test::check_refusal(
        [&] { static_cast<void>(MemoryModel::golden(row.model).patched(row.patch).bound()); }, row.status,
        row.parts);
  }
}

namespace {

using Json = nlohmann::ordered_json;

const attnctl::model::RotaryConfig& rotary_of(const attnctl::model::ModelConfig& config) {
  return *config.layers.at(0).attention.rotary;
}

attnctl::model::ModelConfig resolved(Json config) {
  config["model_type"] = "llama";
  config["num_hidden_layers"] = 1;
  attnctl::checkpoint::ModelSource source;
  source.config_path = "config.json";
  source.config = std::move(config);
  return resolve(source);
}

std::vector<float> numbers(const Json& list) {
  std::vector<float> values;
  for (const auto& value : list) values.push_back(static_cast<float>(value.get<double>()));
  return values;
}

/// Returns the configuration with the keys of older versions instead of the new ones.
Json with_old_keys(Json config) {
  if (!config.contains("rope_parameters") || config.contains("rope_scaling") ||
      config.contains("rope_theta")) {
    return config;
  }
  Json scaling = config["rope_parameters"];
  config.erase("rope_parameters");
  config["rope_theta"] = scaling["rope_theta"];
  scaling.erase("rope_theta");
  scaling["type"] = scaling["rope_type"];
  scaling.erase("rope_type");
  config["rope_scaling"] = scaling["type"] == "default" ? Json() : scaling;
  return config;
}

}  // namespace

TEST_CASE("a large size is over the limit, whether its JSON type is signed or not") {
  for (const Json& size : {Json(std::int64_t{1} << 40U), Json(std::uint64_t{1} << 40U)}) {
    const auto act = [&] { static_cast<void>(resolved({{"hidden_size", size}})); };
    attnctl::test::check_refusal(act, Status::limit, {"/hidden_size: got 1099511627776"});
  }
}

TEST_CASE("inverse frequencies equal those of transformers bit for bit, with new keys, old keys and both") {
  const auto path = ATTNCTL_SOURCE_DIR "/tests/golden/rotary.json";
  const Json cases = attnctl::formats::parse_json(path, attnctl::test::slurp(path));
  CHECK(cases.size() >= 31);
  for (const Json& row : cases) {
    CAPTURE(row["config"].dump());
    for (const auto& config : {resolved(row["config"]), resolved(with_old_keys(row["config"]))}) {
      const attnctl::model::RotaryConfig& rotary = rotary_of(config);
      CHECK(rotary.dims == 2 * row["inverse_frequency"].size());
      CHECK(rotary.inverse_frequency == numbers(row["inverse_frequency"]));
      CHECK(rotary.attention_factor == static_cast<float>(row["attention_factor"].get<double>()));
      CHECK(rotary.long_inverse_frequency == numbers(row.value("long_inverse_frequency", Json::array())));
      CHECK(rotary.long_from == row.value("long_from", std::size_t{0}));
    }
  }
}

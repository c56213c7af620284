#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"
#include "checkpoint/gguf/gguf.hpp"
#include "checkpoint/readers.hpp"

namespace attnctl::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

/// Maps the name of a GGUF tensor, without "blk.N." and ".weight" or ".bias", to the name in a Hugging Face
/// checkpoint.
struct GgufName {
  std::string_view gguf;
  std::string_view name;  // without ".weight" or ".bias"; `{}` is the layer number
  GgufOrder order = GgufOrder::as_stored;
  std::string_view heads = {};  // metadata key of the number of heads, if `order` is rotary_pairs
  float added = 0;              // number that GGUF writers add to each value
};

enum class GgufKeyType { size, number };

/// Maps a metadata key, without the architecture's name, to the key in config.json.
struct GgufKey {
  std::string_view gguf;
  std::string_view key;
  GgufKeyType type = GgufKeyType::size;
  bool needed = true;
};

struct GgufArchitecture {
  std::string_view name;  // general.architecture in GGUF and model_type in config.json
  std::span<const GgufName> names;
  std::span<const GgufKey> keys;
  bool rotary = false;
  bool bias_flags = false;                   // config.json has the flags attention_bias and mlp_bias
  void (*complete)(Json& config) = nullptr;  // sets configuration values that have no metadata key
};

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

/// The names of Llama. The rows of the query and key weights have the same order as in Hugging Face.
constexpr auto kQwen2Names = [] {
  auto names = std::to_array(kLlamaNames);
  for (GgufName& name : names) name.order = GgufOrder::as_stored;
  return names;
}();

constexpr GgufKey kLlamaKeys[] = {
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads", GgufKeyType::size, false},
    {"attention.key_length", "head_dim", GgufKeyType::size, false},
    {"feed_forward_length", "intermediate_size"},
    {"context_length", "max_position_embeddings"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", GgufKeyType::number},
    {"rope.freq_base", "rope_theta", GgufKeyType::number, false},
};

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
    {"embedding_length", "n_embd"},
    {"block_count", "n_layer"},
    {"attention.head_count", "n_head"},
    {"feed_forward_length", "n_inner"},
    {"context_length", "n_positions"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", GgufKeyType::number},
};

/// The names of Gemma 2. A normalization gain in GGUF is 1 plus the value in a Hugging Face checkpoint.
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
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", GgufKeyType::number},
    {"attention.sliding_window", "sliding_window"},
    {"attn_logit_softcapping", "attn_logit_softcapping", GgufKeyType::number, false},
    {"final_logit_softcapping", "final_logit_softcapping", GgufKeyType::number, false},
    {"rope.freq_base", "rope_theta", GgufKeyType::number, false},
};

/// Sets query_pre_attn_scalar, which has no metadata key. The value is the head width, or hidden_size /
/// num_attention_heads in the model with 46 layers.
void complete_gemma2(Json& config) {
  constexpr std::uint64_t kLargest = 46;  // number of layers of Gemma 2 27B
  const bool largest = config.at("num_hidden_layers") == kLargest;
  config["query_pre_attn_scalar"] = largest ? config.at("hidden_size").get<std::uint64_t>() /
                                                  config.at("num_attention_heads").get<std::uint64_t>()
                                            : config.at("head_dim").get<std::uint64_t>();
}

constexpr GgufArchitecture kArchitectures[] = {
    {"gemma2", kGemma2Names, kGemma2Keys, true, false, complete_gemma2},
    {"gpt2", kGpt2Names, kGpt2Keys},
    {"llama", kLlamaNames, kLlamaKeys, true, true},
    {"qwen2", kQwen2Names, kLlamaKeys, true},
};

/// The tensor [k / 2] of divisors of the rotary frequencies, where k is the head width. GGUF stores the rope
/// scaling of Llama 3 in this tensor.
constexpr std::string_view kRotaryFactors = "rope_freqs.weight";

const GgufArchitecture& architecture_of(const std::string& file, const GgufMetadata& metadata) {
  const auto name = metadata.text("general.architecture");
  if (!name) refuse(file, "metadata \"general.architecture\": missing, need a string");
  const auto* const found = std::ranges::find(kArchitectures, *name, &GgufArchitecture::name);
  if (found != std::end(kArchitectures)) return *found;
  refuse(file, "metadata \"general.architecture\": unsupported {}; supported: {}", in_quotes(*name),
         join_texts(kArchitectures, &GgufArchitecture::name));
}

/// The parts of a tensor's name. For "blk.3.attn_q.weight", the layer is 3, the stem "attn_q" and the ending
/// ".weight".
struct GgufNameParts {
  std::optional<std::size_t> layer;
  std::string_view stem;
  std::string_view ending;
};

GgufNameParts parts_of(std::string_view name) {
  GgufNameParts parts;
  constexpr std::string_view block = "blk.";
  if (name.starts_with(block)) {
    name.remove_prefix(block.size());
    const std::string_view digits = name.substr(0, name.find('.'));
    parts.layer = parse_number(digits);
    // The number must have no leading zeros, and a dot must follow it.
    if (!parts.layer || fmt::to_string(*parts.layer) != digits || digits == name) return {};
    name.remove_prefix(digits.size() + 1);
  }
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  parts.stem = name.substr(0, dot);
  parts.ending = name.substr(dot);
  return parts;
}

class GgufMapping {
 public:
  GgufMapping(const std::string& file, const GgufLayout& layout) : file_(file), layout_(layout) {}

  GgufModel map() {
    const auto files = metadata_.integer("split.count").value_or(0);
    if (files > 1)
      refuse(file_, "metadata \"split.count\": unsupported model of {} files; merge them into one", files);
    make_config();
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      if (!architecture_.rotary || layout_.tensors[i].name != kRotaryFactors) map_tensor(i);
    }
    if (const GgufMapped* const twice = sort_by_name(model_.tensors, &GgufMapped::name)) {
      refuse(file_, "tensors {} and {} are both {} in Hugging Face; need only one of them",
             in_quotes(layout_.tensors[twice[0].tensor].name),
             in_quotes(layout_.tensors[twice[1].tensor].name), in_quotes(twice->name));
    }
    return std::move(model_);
  }

 private:
  [[nodiscard]] std::string full(std::string_view key) const {
    return fmt::format("{}.{}", architecture_.name, key);
  }

  [[nodiscard]] const GgufTensor* find(std::string_view name) const {
    const auto found = std::ranges::lower_bound(layout_.tensors, name, {}, &GgufTensor::name);
    return found != layout_.tensors.end() && found->name == name ? &*found : nullptr;
  }

  void copy_number(std::string_view key, const char* to, Json& scaling) const {
    if (const auto value = metadata_.number(full(key))) scaling[to] = *value;
  }

  [[nodiscard]] Json scaling_of(const char* type, std::string_view factor) const {
    Json scaling = {{"rope_type", type}};
    copy_number(factor, "factor", scaling);
    return scaling;
  }

  [[nodiscard]] Json yarn_scaling() const {
    Json scaling = scaling_of("yarn", "rope.scaling.factor");
    copy_number("rope.scaling.yarn_beta_fast", "beta_fast", scaling);
    copy_number("rope.scaling.yarn_beta_slow", "beta_slow", scaling);
    if (const auto original = metadata_.integer(full("rope.scaling.original_context_length")))
      scaling["original_max_position_embeddings"] = *original;
    for (const std::string_view key : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor",
                                       "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_log_multiplier"}) {
      if (metadata_.find(full(key)) != nullptr)
        metadata_.reject(full(key), "a file without this key, which is unsupported");
    }
    return scaling;
  }

  /// Returns a `rope_scaling` that divides each rotary frequency by its factor in `tensor`, at all input
  /// lengths.
  [[nodiscard]] Json scaling_by_factors(const GgufTensor& tensor) const {
    constexpr std::size_t most = 4096;
    if (tensor.shape.size() != 1 || tensor.shape[0] > most || tensor.type->blocks) {
      refuse_tensor(file_, tensor.name,
                    "got {} of shape {}, need one dimension of at most {} in F32, F16 or BF16",
                    tensor.type->name, to_string(tensor.shape), most);
    }
    std::vector<float> factors(tensor.shape[0]);
    convert(tensor.type->dtype, tensor.bytes, std::span(factors));
    for (const float factor : factors) {
      if (!(factor > 0) || !std::isfinite(factor))
        refuse_tensor(file_, tensor.name, "got {}, need numbers above 0", factor);
    }
    return {{"rope_type", "longrope"},
            {"short_factor", factors},
            {"long_factor", factors},
            {"factor", 1.0},
            {"attention_factor", 1.0},
            {"original_max_position_embeddings", model_.config.at("max_position_embeddings")}};
  }

  [[nodiscard]] std::optional<Json> rotary_scaling() const {
    const std::string key = full("rope.scaling.type");
    const std::string_view type = metadata_.text(key).value_or("");
    const bool none = type.empty() || type == "none";
    if (const GgufTensor* const factors = find(kRotaryFactors)) {
      if (none) return scaling_by_factors(*factors);
      metadata_.reject(key, "no scaling in addition to the tensor rope_freqs.weight");
    }
    if (type == "linear") return scaling_of("linear", "rope.scaling.factor");
    if (type == "yarn") return yarn_scaling();
    if (type.empty() && metadata_.find(full("rope.scale_linear")) != nullptr)
      return scaling_of("linear", "rope.scale_linear");
    if (none) return std::nullopt;
    refuse(file_, "metadata \"{}\": unsupported {}; supported: none, linear, yarn", key, in_quotes(type));
  }

  void add_rotary() {
    Json& config = model_.config;
    if (const auto rotated = metadata_.integer(full("rope.dimension_count"))) {
      const std::uint64_t width = config.contains("head_dim")
                                      ? config["head_dim"].get<std::uint64_t>()
                                      : config.at("hidden_size").get<std::uint64_t>() /
                                            config.at("num_attention_heads").get<std::uint64_t>();
      if (*rotated != width) {
        metadata_.reject(full("rope.dimension_count"),
                         fmt::format("{}, the width of a head; partial rotation is unsupported", width));
      }
    }
    if (const auto scaling = rotary_scaling()) config["rope_scaling"] = *scaling;
  }

  void make_config() {
    Json& config = model_.config;
    config = Json::object();
    config["model_type"] = architecture_.name;
    for (const GgufKey& key : architecture_.keys) read_key(key);
    const std::uint64_t layers = metadata_.integer(full("block_count")).value_or(0);
    if (layers > layout_.tensors.size()) {
      metadata_.reject(full("block_count"),
                       fmt::format("at most {}, the number of tensors in the file", layout_.tensors.size()));
    }
    if (const GgufTensor* token = find("token_embd.weight"); token != nullptr && !token->shape.empty())
      config["vocab_size"] = token->shape.front();
    if (architecture_.bias_flags) {
      config["attention_bias"] = find("blk.0.attn_q.bias") != nullptr;
      config["mlp_bias"] = find("blk.0.ffn_up.bias") != nullptr;
    }
    config["tie_word_embeddings"] = find("output.weight") == nullptr;
    for (const auto& [gguf, key] : {std::pair{"bos", "bos"}, {"eos", "eos"}, {"padding", "pad"}}) {
      if (const auto id = metadata_.integer(fmt::format("tokenizer.ggml.{}_token_id", gguf)))
        config[fmt::format("{}_token_id", key)] = *id;
    }
    if (architecture_.rotary) add_rotary();
    reject_variants();
    if (architecture_.complete != nullptr) architecture_.complete(config);
  }

  void read_key(const GgufKey& key) {
    const std::string name = full(key.gguf);
    const std::string to(key.key);
    if (metadata_.find(name) == nullptr) {
      if (!key.needed) return;
      refuse(file_, "metadata \"{}\": missing, need {} above 0", name,
             key.type == GgufKeyType::number ? "a number" : "an integer");
    }
    if (key.type == GgufKeyType::number) {
      const double value = metadata_.number(name).value();
      if (value <= 0) metadata_.reject(name, "a number above 0");
      model_.config[to] = value;
    } else {
      const std::uint64_t value = metadata_.integer(name).value();
      constexpr std::uint64_t largest = std::uint64_t{1} << 31;
      if (value == 0 || value >= largest) metadata_.reject(name, fmt::format("1 to {}", largest - 1));
      model_.config[to] = value;
    }
  }

  [[nodiscard]] bool is_read(std::string_view key) const {
    return std::ranges::find(architecture_.keys, key, &GgufKey::gguf) != architecture_.keys.end();
  }

  /// Throws Error(bad_input) if the file uses options that change the results but are not supported.
  void reject_variants() const {
    for (const std::string_view key : {"expert_count", "attention.sliding_window"}) {
      if (!is_read(key) && metadata_.integer(full(key)).value_or(0) != 0)
        metadata_.reject(full(key), "0; other values are unsupported");
    }
    for (const std::string_view key :
         {"attention.scale", "attention.clamp_kqv", "attention.max_alibi_bias", "attn_logit_softcapping",
          "final_logit_softcapping", "logit_scale", "embedding_scale", "residual_scale"}) {
      if (!is_read(key) && metadata_.number(full(key)).value_or(0) != 0)
        metadata_.reject(full(key), "0 or a file without this key; other values are unsupported");
    }
    const auto keys = metadata_.integer(full("attention.key_length"));
    const auto values = metadata_.integer(full("attention.value_length"));
    if (values && keys != values) {
      metadata_.reject(full("attention.value_length"),
                       keys ? fmt::format("{}, the width of keys; another width is unsupported", *keys)
                            : fmt::format("the same number in {}; other widths are unsupported",
                                          full("attention.key_length")));
    }
  }

  void map_tensor(std::size_t index) {
    const GgufTensor& tensor = layout_.tensors[index];
    GgufMapped mapped;
    mapped.name = tensor.name;
    mapped.tensor = index;
    const GgufNameParts parts = parts_of(tensor.name);
    for (const GgufName& row : architecture_.names) {
      const bool in_layer = row.name.find("{}") != std::string_view::npos;
      if (row.gguf != parts.stem || in_layer != parts.layer.has_value()) continue;
      mapped.name = fmt::format(fmt::runtime(row.name), parts.layer.value_or(0));
      mapped.name += parts.ending;
      mapped.order = order_of(row, tensor);
      mapped.added = row.added;
      if (row.added != 0 && tensor.type->blocks)
        refuse_tensor(file_, tensor.name, "unsupported {} norm; need F32, F16 or BF16", tensor.type->name);
      if (mapped.order == GgufOrder::rotary_pairs) mapped.heads = heads_of(row, tensor);
    }
    model_.tensors.push_back(std::move(mapped));
  }

  [[nodiscard]] GgufOrder order_of(const GgufName& row, const GgufTensor& tensor) const {
    if (tensor.shape.size() == 2) return row.order;
    if (tensor.shape.size() != 1 && row.order != GgufOrder::as_stored)
      refuse_tensor(file_, tensor.name, "got shape {}, need one or two dimensions", to_string(tensor.shape));
    // Transposing does not change a tensor with one dimension.
    if (row.order != GgufOrder::rotary_pairs) return GgufOrder::as_stored;
    if (tensor.type->blocks)
      refuse_tensor(file_, tensor.name, "unsupported {} bias; need F32, F16 or BF16", tensor.type->name);
    return row.order;
  }

  [[nodiscard]] std::size_t heads_of(const GgufName& row, const GgufTensor& tensor) const {
    const auto all = metadata_.integer(full("attention.head_count")).value();
    const auto heads = static_cast<std::size_t>(metadata_.integer(full(row.heads)).value_or(all));
    if (tensor.shape.front() % (2 * heads) != 0) {
      refuse_tensor(file_, tensor.name,
                    "got shape {}, need a multiple of {} rows, two for each of the {} heads",
                    to_string(tensor.shape), 2 * heads, heads);
    }
    return heads;
  }

  const std::string& file_;
  const GgufLayout& layout_;
  const GgufMetadata& metadata_ = layout_.metadata;
  const GgufArchitecture& architecture_ = architecture_of(file_, metadata_);
  GgufModel model_;
};

}  // namespace

GgufModel map_gguf(const std::string& file, const GgufLayout& layout) {
  return GgufMapping(file, layout).map();
}

}  // namespace attnctl::checkpoint

#include "checkpoint/gguf/gguf_model.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {
namespace {

using Json = nlohmann::ordered_json;

/// The tensor of divisors of rotary frequencies [k / 2], as GGUF stores the scaling of Llama 3.
constexpr std::string_view kRotaryFactors = "rope_freqs.weight";

struct GgufRotary {
  const std::string& file;  // escaped
  const GgufMetadata& metadata;
  const std::string& architecture;
  const GgufTensor* factors;  // kRotaryFactors, or null
};

std::string rope_key(const GgufRotary& rotary, std::string_view key) {
  return fmt::format("{}.rope.{}", rotary.architecture, key);
}

void copy_number(const GgufRotary& rotary, std::string_view key, const char* to, Json& scaling) {
  if (const auto value = rotary.metadata.number(rope_key(rotary, key))) scaling[to] = *value;
}

Json linear_scaling(const GgufRotary& rotary, std::string_view factor) {
  Json scaling = {{"rope_type", "linear"}};
  copy_number(rotary, factor, "factor", scaling);
  return scaling;
}

Json yarn_scaling(const GgufRotary& rotary) {
  Json scaling = {{"rope_type", "yarn"}};
  copy_number(rotary, "scaling.factor", "factor", scaling);
  copy_number(rotary, "scaling.yarn_beta_fast", "beta_fast", scaling);
  copy_number(rotary, "scaling.yarn_beta_slow", "beta_slow", scaling);
  if (const auto original = rotary.metadata.integer(rope_key(rotary, "scaling.original_context_length")))
    scaling["original_max_position_embeddings"] = *original;
  for (const std::string_view key : {"scaling.attn_factor", "scaling.yarn_attn_factor",
                                     "scaling.yarn_ext_factor", "scaling.yarn_log_multiplier"}) {
    const std::string name = rope_key(rotary, key);
    if (rotary.metadata.find(name) != nullptr)
      rotary.metadata.reject(*rotary.metadata.find(name), "no such key; it is unsupported");
  }
  return scaling;
}

/// Divides each frequency by its own factor, for all lengths.
Json scaling_by_factors(const GgufRotary& rotary, const Json& config) {
  const GgufTensor& tensor = *rotary.factors;
  const std::string where = fmt::format("{}: tensor {}", rotary.file, in_quotes(tensor.name));
  constexpr std::size_t most = 4096;
  if (tensor.shape.size() != 1 || tensor.shape[0] > most || tensor.type->decode != nullptr) {
    fail(Status::bad_input, "{}: got {} of shape {}, need one dimension of at most {} in F32", where,
         tensor.type->name, to_string(tensor.shape), most);
  }
  std::vector<float> factors(tensor.shape[0]);
  convert(tensor.type->dtype, tensor.bytes, std::span(factors));
  for (const float factor : factors) {
    if (!(factor > 0) || !std::isfinite(factor))
      fail(Status::bad_input, "{}: got {}, need numbers above 0", where, factor);
  }
  return {
      {"rope_type", "longrope"}, {"short_factor", factors},
      {"long_factor", factors},  {"factor", 1.0},
      {"attention_factor", 1.0}, {"original_max_position_embeddings", config.at("max_position_embeddings")}};
}

std::optional<Json> scaling_of(const GgufRotary& rotary, const Json& config) {
  const std::string key = rope_key(rotary, "scaling.type");
  const std::string_view type = rotary.metadata.text(key).value_or("");
  const bool has_old_key = rotary.metadata.find(rope_key(rotary, "scale_linear")) != nullptr;
  if (rotary.factors != nullptr) {
    if (type.empty() || type == "none") return scaling_by_factors(rotary, config);
    rotary.metadata.reject(*rotary.metadata.find(key),
                           "no scaling in addition to the tensor rope_freqs.weight");
  }
  if (type == "linear") return linear_scaling(rotary, "scaling.factor");
  if (type == "yarn") return yarn_scaling(rotary);
  if (type.empty() && has_old_key) return linear_scaling(rotary, "scale_linear");
  if (type.empty() || type == "none") return std::nullopt;
  fail(Status::bad_input, "{}: metadata \"{}\": unsupported {}; supported: none, linear, yarn", rotary.file,
       key, in_quotes(type));
}

/// Adds `rope_scaling` to a configuration that has its other keys. Throws Error(bad_input) for an unsupported
/// scaling and for partially rotated heads.
void add_gguf_rotary(const GgufRotary& rotary, Json& config) {
  const std::string dimensions = rope_key(rotary, "dimension_count");
  if (const auto rotated = rotary.metadata.integer(dimensions)) {
    const std::uint64_t width = config.contains("head_dim")
                                    ? config["head_dim"].get<std::uint64_t>()
                                    : config.at("hidden_size").get<std::uint64_t>() /
                                          config.at("num_attention_heads").get<std::uint64_t>();
    if (*rotated != width) {
      rotary.metadata.reject(*rotary.metadata.find(dimensions),
                             fmt::format("{}, the width of a head; partial rotation is unsupported", width));
    }
  }
  if (const auto scaling = scaling_of(rotary, config)) config["rope_scaling"] = *scaling;
}

const GgufArchitecture& architecture_of(const std::string& file, const GgufMetadata& metadata) {
  const auto name = metadata.text("general.architecture");
  if (!name) fail(Status::bad_input, "{}: metadata \"general.architecture\": missing, need a string", file);
  std::string known;
  for (const GgufArchitecture& architecture : gguf_architectures()) {
    if (architecture.name == *name) return architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.name);
  }
  fail(Status::bad_input, "{}: metadata \"general.architecture\": unsupported {}; supported: {}", file,
       in_quotes(*name), known);
}

/// The parts of a tensor's name: "blk.3.attn_q.weight" has layer 3, stem "attn_q" and ending ".weight".
struct GgufNameParts {
  std::optional<std::size_t> layer;
  std::string_view stem;
  std::string_view ending;
};

GgufNameParts parts_of(std::string_view name) {
  GgufNameParts parts;
  constexpr std::string_view block = "blk.";
  if (name.starts_with(block)) {
    const char* const begin = name.data() + block.size();
    const char* const end = name.data() + name.size();
    std::size_t layer = 0;
    const auto [stop, error] = std::from_chars(begin, end, layer);
    const bool plain =
        error == std::errc() && stop != end && *stop == '.' && (*begin != '0' || stop == begin + 1);
    if (!plain) return {};
    parts.layer = layer;
    name.remove_prefix(static_cast<std::size_t>(stop + 1 - name.data()));
  }
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  parts.stem = name.substr(0, dot);
  parts.ending = name.substr(dot);
  return parts;
}

class GgufMapping {
 public:
  GgufMapping(const std::string& file, const GgufLayout& layout)
      : file_(file), layout_(layout), architecture_(architecture_of(file, layout.metadata)) {}

  GgufModel map() {
    reject_split();
    make_config();
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      if (!architecture_.rotary || layout_.tensors[i].name != kRotaryFactors) map_tensor(i);
    }
    std::ranges::sort(model_.tensors, {}, &GgufMapped::name);
    const auto twice = std::ranges::adjacent_find(model_.tensors, {}, &GgufMapped::name);
    if (twice != model_.tensors.end()) {
      fail(Status::bad_input, "{}: tensors {} and {} are the same tensor; need one of them", file_,
           in_quotes(layout_.tensors[twice->tensor].name),
           in_quotes(layout_.tensors[std::next(twice)->tensor].name));
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

  void reject_split() const {
    const auto parts = layout_.metadata.integer("split.count");
    if (parts.value_or(0) <= 1) return;
    fail(Status::bad_input,
         "{}: metadata \"split.count\": unsupported model of {} files; merge them into one", file_, *parts);
  }

  void make_config() {
    nlohmann::ordered_json& config = model_.config;
    config = nlohmann::ordered_json::object();
    config["model_type"] = architecture_.name;
    for (const GgufKey& key : architecture_.keys) read_key(key);
    const std::uint64_t layers = layout_.metadata.integer(full("block_count")).value_or(0);
    if (layers > layout_.tensors.size()) {
      layout_.metadata.reject(
          *layout_.metadata.find(full("block_count")),
          fmt::format("at most {}, the number of tensors in the file", layout_.tensors.size()));
    }
    if (const GgufTensor* token = find("token_embd.weight"); token != nullptr && !token->shape.empty())
      config["vocab_size"] = token->shape.front();
    for (const GgufFlag& flag : architecture_.flags)
      config[std::string(flag.key)] = find(flag.tensor) != nullptr;
    config["tie_word_embeddings"] = find("output.weight") == nullptr;
    for (const auto& [gguf, key] : {std::pair{"bos", "bos"}, {"eos", "eos"}, {"padding", "pad"}}) {
      if (const auto id = layout_.metadata.integer(fmt::format("tokenizer.ggml.{}_token_id", gguf)))
        config[fmt::format("{}_token_id", key)] = *id;
    }
    if (architecture_.rotary) {
      const std::string prefix(architecture_.name);
      add_gguf_rotary({file_, layout_.metadata, prefix, find(kRotaryFactors)}, config);
    }
    reject_variants();
    if (architecture_.complete != nullptr) architecture_.complete(config);
  }

  void read_key(const GgufKey& key) {
    const std::string name = full(key.gguf);
    const std::string to(key.key);
    if (layout_.metadata.find(name) == nullptr) {
      if (!key.needed) return;
      fail(Status::bad_input, "{}: metadata \"{}\": missing, need a number above 0", file_, name);
    }
    if (key.kind == GgufKey::Kind::number) {
      const double value = layout_.metadata.number(name).value();
      if (value <= 0) layout_.metadata.reject(*layout_.metadata.find(name), "a number above 0");
      model_.config[to] = value;
    } else {
      const std::uint64_t value = layout_.metadata.integer(name).value();
      constexpr std::uint64_t largest = std::uint64_t{1} << 31;
      if (value == 0 || value >= largest)
        layout_.metadata.reject(*layout_.metadata.find(name), fmt::format("1 to {}", largest - 1));
      model_.config[to] = value;
    }
  }

  [[nodiscard]] bool is_read(std::string_view key) const {
    return std::ranges::find(architecture_.keys, key, &GgufKey::gguf) != architecture_.keys.end();
  }

  /// Rejects options that change the results but are not supported.
  void reject_variants() const {
    for (const std::string_view key : {"expert_count", "attention.sliding_window"}) {
      const std::string name = full(key);
      if (is_read(key)) continue;
      if (layout_.metadata.find(name) != nullptr && layout_.metadata.integer(name).value() != 0)
        layout_.metadata.reject(*layout_.metadata.find(name), "0, anything else is unsupported");
    }
    for (const std::string_view key :
         {"attention.scale", "attention.clamp_kqv", "attention.max_alibi_bias", "attn_logit_softcapping",
          "final_logit_softcapping", "logit_scale", "embedding_scale", "residual_scale"}) {
      const std::string name = full(key);
      if (is_read(key)) continue;
      if (layout_.metadata.find(name) != nullptr && layout_.metadata.number(name).value() != 0)
        layout_.metadata.reject(*layout_.metadata.find(name), "none or 0, anything else is unsupported");
    }
    const auto keys = layout_.metadata.integer(full("attention.key_length"));
    const auto values = layout_.metadata.integer(full("attention.value_length"));
    if (values && keys != values) {
      layout_.metadata.reject(*layout_.metadata.find(full("attention.value_length")),
                              fmt::format("{}, the width of keys; another width is unsupported",
                                          keys ? fmt::format("{}", *keys) : "attention.key_length"));
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
      if (row.added != 0 && tensor.type->decode != nullptr) {
        fail(Status::bad_input, "{}: tensor {}: unsupported {} norm; need F32, F16 or BF16", file_,
             in_quotes(tensor.name), tensor.type->name);
      }
      if (mapped.order == GgufOrder::rotary_pairs) mapped.heads = heads_of(row, tensor);
    }
    model_.tensors.push_back(std::move(mapped));
  }

  [[nodiscard]] GgufOrder order_of(const GgufName& row, const GgufTensor& tensor) const {
    if (tensor.shape.size() == 2) return row.order;
    if (tensor.shape.size() != 1 && row.order != GgufOrder::as_stored) {
      fail(Status::bad_input, "{}: tensor {}: got shape {}, need one or two dimensions", file_,
           in_quotes(tensor.name), to_string(tensor.shape));
    }
    if (row.order != GgufOrder::rotary_pairs) return GgufOrder::as_stored;  // a bias
    if (tensor.type->decode != nullptr) {
      fail(Status::bad_input, "{}: tensor {}: unsupported {} bias; need F32, F16 or BF16", file_,
           in_quotes(tensor.name), tensor.type->name);
    }
    return row.order;
  }

  [[nodiscard]] std::size_t heads_of(const GgufName& row, const GgufTensor& tensor) const {
    const auto all = layout_.metadata.integer(full("attention.head_count")).value();
    const auto heads = static_cast<std::size_t>(layout_.metadata.integer(full(row.heads)).value_or(all));
    if (tensor.shape.front() % (2 * heads) != 0) {
      fail(Status::bad_input, "{}: tensor {}: got shape {}, need rows of {} heads ({}) of an even width",
           file_, in_quotes(tensor.name), to_string(tensor.shape), heads, full(row.heads));
    }
    return heads;
  }

  const std::string& file_;
  const GgufLayout& layout_;
  const GgufArchitecture& architecture_;
  GgufModel model_;
};

}  // namespace

GgufModel map_gguf(const std::string& file, const GgufLayout& layout) {
  return GgufMapping(file, layout).map();
}

}  // namespace attnctl

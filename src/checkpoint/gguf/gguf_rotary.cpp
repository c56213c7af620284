#include "checkpoint/gguf/gguf_rotary.hpp"

#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {
namespace {

using Json = nlohmann::ordered_json;

std::string full(const GgufRotary& rotary, std::string_view key) {
  return fmt::format("{}.rope.{}", rotary.architecture, key);
}

void copy_number(const GgufRotary& rotary, std::string_view key, const char* to, Json& scaling) {
  if (const auto value = rotary.metadata.number(full(rotary, key))) scaling[to] = *value;
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
  if (const auto original = rotary.metadata.integer(full(rotary, "scaling.original_context_length")))
    scaling["original_max_position_embeddings"] = *original;
  for (const std::string_view key : {"scaling.attn_factor", "scaling.yarn_attn_factor",
                                     "scaling.yarn_ext_factor", "scaling.yarn_log_multiplier"}) {
    const std::string name = full(rotary, key);
    if (rotary.metadata.find(name) != nullptr)
      rotary.metadata.refuse(*rotary.metadata.find(name), "none, it is unsupported");
  }
  return scaling;
}

/// Frequencies divided one by one, at all lengths.
Json divided_frequencies(const GgufRotary& rotary, const Json& config) {
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
  const std::string key = full(rotary, "scaling.type");
  const std::string_view type = rotary.metadata.text(key).value_or("");
  const bool old = rotary.metadata.find(full(rotary, "scale_linear")) != nullptr;
  if (rotary.factors != nullptr) {
    if (type.empty() || type == "none") return divided_frequencies(rotary, config);
    rotary.metadata.refuse(*rotary.metadata.find(key), "none beside the tensor rope_freqs.weight");
  }
  if (type == "linear") return linear_scaling(rotary, "scaling.factor");
  if (type == "yarn") return yarn_scaling(rotary);
  if (type.empty() && old) return linear_scaling(rotary, "scale_linear");
  if (type.empty() || type == "none") return std::nullopt;
  fail(Status::bad_input, "{}: metadata \"{}\": unsupported {}; supported: none, linear, yarn", rotary.file,
       key, in_quotes(type));
}

}  // namespace

void add_gguf_rotary(const GgufRotary& rotary, Json& config) {
  const std::string dimensions = full(rotary, "dimension_count");
  if (const auto turned = rotary.metadata.integer(dimensions)) {
    const std::uint64_t width = config.contains("head_dim")
                                    ? config["head_dim"].get<std::uint64_t>()
                                    : config.at("hidden_size").get<std::uint64_t>() /
                                          config.at("num_attention_heads").get<std::uint64_t>();
    if (*turned != width) {
      rotary.metadata.refuse(
          *rotary.metadata.find(dimensions),
          fmt::format("{}, the width of a head; turning a part of it is unsupported", width));
    }
  }
  if (const auto scaling = scaling_of(rotary, config)) config["rope_scaling"] = *scaling;
}

}  // namespace attnctl

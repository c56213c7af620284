#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/config/config.hpp"

namespace attnctl::model {

struct BareSizes {
  std::size_t d_model = 0;
  std::size_t heads = 0;
  std::size_t layers = 1;
  std::optional<std::size_t> kv_heads = {};  // default: heads
  std::optional<std::size_t> d_head = {};    // default: d_model / heads
  std::optional<std::size_t> d_value = {};   // default: d_head
};

/// Returns the configuration of `layers` attention layers without biases, MLPs and norms. Throws Error(usage)
/// if a size is 0, if `heads` is not a multiple of `kv_heads`, or if `d_head` is not given and d_model is not
/// a multiple of `heads`. Throws Error(limit) if `layers` or the head width is too large.
[[nodiscard]] ModelConfig bare_config(const BareSizes& sizes);

/// A published architecture. Presets have no weights.
struct Preset {
  std::string_view name;   // "gpt2"
  std::string_view alias;  // "gpt2-small"; "" if there is none
  std::string_view title;  // "GPT-2 small"
  /// The model_type; "" for the original Transformer. Then config() has only the attention of its encoder.
  const char* type = "";
  std::size_t d_model = 0, layers = 0, heads = 0;
  std::size_t positions = 0, mlp = 0, kv_heads = 0;  // 0: the family's default

  [[nodiscard]] ModelConfig config() const;
  /// Returns the number of attention layers in the whole architecture: `layers`, or three times `layers` for
  /// the original Transformer, whose decoder has the same number of layers, each with two attentions.
  [[nodiscard]] std::size_t attentions() const { return (*type == '\0' ? 3 : 1) * layers; }
};

[[nodiscard]] std::span<const Preset> presets();

/// Returns the names of all presets with their aliases: "transformer-base, ..., gpt2 (gpt2-small), ...".
[[nodiscard]] std::string preset_names();

/// Returns the preset with this name or alias. Throws Error(usage) with all names if there is none.
[[nodiscard]] const Preset& preset_named(std::string_view name);

}  // namespace attnctl::model

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/config.hpp"

namespace attnctl {

/// Sizes of a stack of bare attention layers.
struct BareSizes {
  std::size_t d_model = 0;
  std::size_t heads = 0;
  std::size_t layers = 1;
  std::optional<std::size_t> kv_heads = {};  // default: heads
  std::optional<std::size_t> d_head = {};    // default: d_model / heads
  std::optional<std::size_t> d_value = {};   // default: d_head
};

/// Returns the configuration of `layers` bare attention layers without biases. Throws Error(usage) if sizes
/// are 0 or do not divide each other.
[[nodiscard]] ModelConfig bare_config(const BareSizes& sizes);

/// A published architecture, without weights.
struct Preset {
  std::string name;                  // "gpt2"
  std::vector<std::string> aliases;  // "gpt2-small"
  std::string title;                 // "GPT-2 small"
  ModelConfig config;

  /// Number of attentions in the whole architecture: the layers of `config`, times three if `config` is only
  /// the encoder of an encoder-decoder model.
  std::size_t attentions = 0;
};

/// Returns the table of models that textbooks use, in its order.
[[nodiscard]] std::span<const Preset> presets();

/// Returns the names of all presets with aliases in parentheses: "transformer-base, ..., gpt2 (gpt2-small),
/// ...".
[[nodiscard]] std::string preset_names();

/// Returns the preset with this name or alias. Throws Error(usage) with the known names.
[[nodiscard]] const Preset& preset_named(std::string_view name);

}  // namespace attnctl

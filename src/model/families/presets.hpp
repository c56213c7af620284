#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/config/config.hpp"

namespace attnctl::model {

/// The sizes of a stack of attention layers without MLPs and norms.
struct BareSizes {
  std::size_t d_model = 0;
  std::size_t heads = 0;
  std::size_t layers = 1;
  std::optional<std::size_t> kv_heads = {};  // default: heads
  std::optional<std::size_t> d_head = {};    // default: d_model / heads
  std::optional<std::size_t> d_value = {};   // default: d_head
};

/// Returns the configuration of `layers` attention layers without biases, MLPs and norms. Throws Error(usage)
/// if a size is 0 or the sizes do not divide each other.
[[nodiscard]] ModelConfig bare_config(const BareSizes& sizes);

/// A published architecture. Presets have no weights.
struct Preset {
  std::string name;        // "gpt2"
  std::string_view alias;  // "gpt2-small"; "" if there is none
  std::string title;       // "GPT-2 small"
  ModelConfig config;

  /// Number of attention layers in the whole architecture. It is three times the layers of `config` if
  /// `config` is only the encoder of an encoder-decoder model.
  std::size_t attentions = 0;
};

/// Returns all presets, a list of models that textbooks use.
[[nodiscard]] std::span<const Preset> presets();

/// Returns the names of all presets, each followed by its alias in parentheses: "transformer-base, ...,
/// gpt2 (gpt2-small), ...".
[[nodiscard]] std::string preset_names();

/// Returns the preset with this name or alias. Throws Error(usage), which lists the known names, if there is
/// none.
[[nodiscard]] const Preset& preset_named(std::string_view name);

}  // namespace attnctl::model

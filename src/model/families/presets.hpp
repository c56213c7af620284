#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/config.hpp"

namespace attnctl {

/// Sizes of a bare attention layer; what is left open follows from the others.
struct BareSizes {
  std::size_t d_model = 0;
  std::size_t heads = 0;
  std::size_t layers = 1;
  std::optional<std::size_t> kv_heads = {};  // heads
  std::optional<std::size_t> d_head = {};    // d_model / heads
  std::optional<std::size_t> d_value = {};   // d_head
};

/// The configuration of `layers` bare attention layers without biases. Throws Error(usage) where sizes are 0
/// or do not divide each other.
[[nodiscard]] ModelConfig bare_config(const BareSizes& sizes);

/// A published architecture, without weights.
struct Preset {
  std::string name;                  // "gpt2"
  std::vector<std::string> aliases;  // "gpt2-small"
  std::string title;                 // "GPT-2 small"
  ModelConfig config;

  /// Attentions of the whole architecture: its layers, or three times as many where `config` is the encoder
  /// of an encoder and a decoder, whose layers attend to themselves and to the encoder.
  std::size_t attentions = 0;
};

/// The textbooks' table of models, in its order.
[[nodiscard]] std::span<const Preset> presets();

/// The names of all presets, aliases in brackets: "transformer-base, ..., gpt2 (gpt2-small), ...".
[[nodiscard]] std::string preset_names();

/// By name or alias. Throws Error(usage) that lists the known names.
[[nodiscard]] const Preset& preset_named(std::string_view name);

}  // namespace attnctl

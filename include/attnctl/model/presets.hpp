#pragma once

#include "attnctl/model/config.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  std::string name;   // "bert-base"
  std::string title;  // "BERT base"
  ModelConfig config;
};

/// The table of docs/textbook.md, in its order.
[[nodiscard]] std::span<const Preset> presets();

/// Throws Error(usage) that lists the known names.
[[nodiscard]] const Preset& preset_named(std::string_view name);

}  // namespace attnctl

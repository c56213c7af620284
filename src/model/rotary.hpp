#pragma once

#include <cstddef>

#include "model/config/config.hpp"
#include "model/config/config_reader.hpp"
#include "model/families/family.hpp"

namespace attnctl {

/// Inverse frequencies as the reference implementation makes them, in float32 (transformers,
/// modeling_rope_utils). rope_scaling, the old key, replaces rope_parameters, the new one, where it says
/// anything; rope_theta within either wins over the old one beside them. Throws Error(bad_input) for a
/// scaling that is not known or wrong.
[[nodiscard]] RotaryConfig resolve_rotary(const RotarySpec& spec, const ConfigReader& config,
                                          std::size_t d_head, std::size_t max_positions);

/// The same of layers with a window, where the family says that they turn otherwise (RotarySpec::sliding).
[[nodiscard]] RotaryConfig resolve_sliding_rotary(const RotarySpec& spec, const ConfigReader& config,
                                                  std::size_t d_head, std::size_t max_positions);

}  // namespace attnctl

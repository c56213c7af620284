#pragma once

#include "attnctl/model/config.hpp"
#include "attnctl/model/family.hpp"

#include <cstddef>

#include "model/config_reader.hpp"

namespace attnctl {

/// Inverse frequencies as the reference implementation makes them, in float32 (transformers,
/// modeling_rope_utils). Old keys (rope_theta, rope_scaling) and new ones (rope_parameters, which win).
/// Throws Error(bad_input) for a scaling that is not known or wrong.
[[nodiscard]] RotaryConfig resolve_rotary(const RotarySpec& spec, const ConfigReader& config,
                                          std::size_t d_head, std::size_t max_positions);

}  // namespace attnctl

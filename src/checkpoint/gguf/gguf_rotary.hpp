#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/gguf/gguf.hpp"

namespace attnctl {

/// The tensor of what each rotary frequency is divided by [k / 2]: how GGUF has the scaling of Llama 3.
inline constexpr std::string_view kRotaryFactors = "rope_freqs.weight";

struct GgufRotary {
  const std::string& file;  // escaped
  const GgufMetadata& metadata;
  const std::string& architecture;
  const GgufTensor* factors;  // kRotaryFactors; null where there is none
};

/// Adds `rope_scaling` to a configuration that has its other keys. Throws Error(bad_input) for a scaling that
/// is not supported, for heads that turn in part, and for numbers that are none.
void add_gguf_rotary(const GgufRotary& rotary, nlohmann::ordered_json& config);

}  // namespace attnctl

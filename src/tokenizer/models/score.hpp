#pragma once

#include <string_view>

namespace attnctl {

/// A number of a JSON text as the reference reads it: its digits, as many as fit 64 bits, and the power of
/// ten are rounded apart, so that the last bit may differ from the nearest double. Scores that tie by one
/// reading do not by the other, and a tie decides between tokens. `digits` is a JSON number; infinite where
/// it is out of range.
[[nodiscard]] double read_score(std::string_view digits);

}  // namespace attnctl

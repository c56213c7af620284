#pragma once

#include <cstddef>

#include "checkpoint/checkpoint.hpp"

namespace attnctl {

/// True where two tensors of a checkpoint are of one type and shape and hold the same bytes: stored copies of
/// one weight. Reads no further than the first difference; nothing of either may be on loan, as both loans
/// are ended.
[[nodiscard]] bool same_values(Checkpoint& weights, std::size_t a, std::size_t b);

}  // namespace attnctl

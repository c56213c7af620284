#pragma once

#include <cstddef>
#include <cstdint>

#include "base/pool.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// A head returns an average of values: several things at once want several heads.
struct AveragingOptions {
  std::size_t targets = 8;  // at most
  std::size_t others = 8;   // further tokens
  std::size_t d_value = 64;
  double sharpness = 40;     // of a query: its score for a key that it looks for; others have 0
  std::size_t steps = 2000;  // of the descent
  std::uint64_t seed = 0;
};

/// For 1..targets tokens with orthonormal values and 1..targets heads, attention computed from queries and
/// keys: how far the sum of the heads' outputs is from the sum of the targets' values when every head looks
/// at all targets alike, and by descent on the scores from a random start (closed form of the least there is:
/// (t - h) / sqrt(t)); and how far heads that each look at one target are, through W_O, from returning every
/// target's value separately (closed form: sqrt(t - h), as a map of h outputs has rank h). Throws
/// Error(usage) where d_value has no room for as many orthonormal values.
[[nodiscard]] ExperimentResult averaging_experiment(const AveragingOptions& options, Pool& pool);

}  // namespace attnctl

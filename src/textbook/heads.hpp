#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/pool.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// Options of the heads experiment: the effects of splitting a width among heads.
struct HeadsOptions {
  std::size_t d = 512;
  std::vector<std::size_t> heads = {1, 2, 4, 8, 16, 32, 64};  // each must divide d
  std::size_t length = 128;
  std::uint64_t seed = 0;
};

/// Returns one row for each number of heads h. Computed: parameters (4 d^2) and multiply-adds, which do not
/// depend on h; bytes of patterns, 4 h n^2; and the bound on the rank of one head's scores, min(n, d / h).
/// Measured on weights with independent normal entries of deviation 1/sqrt(d) and inputs of n tokens with
/// unit variance: the largest numerical rank of a head's scores; the largest numerical rank and the mean
/// effective rank of QK; the number of distinct patterns (patterns are equal if all entries are within
/// 1e-6); and the mean total variation between the pattern rows of two heads. Throws Error(usage) if a
/// number of heads does not divide d.
[[nodiscard]] ExperimentResult heads_experiment(const HeadsOptions& options, Pool& pool);

/// Options of the averaging experiment. A head returns an average of values, so returning several values
/// separately needs several heads.
struct AveragingOptions {
  std::size_t targets = 8;  // largest number of targets
  std::size_t others = 8;   // number of other tokens
  std::size_t d_value = 64;
  double sharpness = 40;     // score of a query for the keys that it matches; other scores are 0
  std::size_t steps = 2000;  // descent steps
  std::uint64_t seed = 0;
};

/// Measures how well 1..targets heads return 1..targets orthonormal values. Attention is computed from
/// queries and keys. The error of the sum is the distance between the sum of the heads' outputs and the sum
/// of the targets' values. It is measured with every head attending equally to all targets, and after
/// descent on the scores from a random start (closed form of the minimum: (t - h) / sqrt(t)). The other
/// error is that of returning every target's value separately through W_O, with one target per head (closed
/// form: sqrt(t - h), because a map of h outputs has rank h). Throws Error(usage) if d_value is too small
/// for the orthonormal values.
[[nodiscard]] ExperimentResult averaging_experiment(const AveragingOptions& options, Pool& pool);

}  // namespace attnctl

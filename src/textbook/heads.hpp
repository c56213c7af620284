#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/pool.hpp"
#include "textbook/experiment.hpp"

namespace attnctl::textbook {

/// Options of the heads experiment. It measures what changes when a layer of width d is split among more
/// heads.
struct HeadsOptions {
  std::size_t d = 512;
  std::vector<std::size_t> heads = {1, 2, 4, 8, 16, 32, 64};  // each must divide d
  /// Number of tokens.
  std::size_t length = 128;
  std::uint64_t seed = 0;
};

/// Returns one row for each number of heads h. Some columns are computed from h and n, the number of tokens:
/// parameters (4 d^2) and multiply-adds, which do not depend on h; bytes of patterns, 4 h n^2; and the
/// largest possible rank of one head's scores, min(n, d / h). Other columns are measured on a random layer,
/// whose weights are independent and normal with standard deviation 1/sqrt(d), and inputs of unit variance:
/// the largest numerical rank of a head's scores; the largest numerical rank and the mean effective rank of
/// QK; the number of distinct patterns (two patterns are equal if all entries differ by at most 1e-6); and
/// the mean total variation between the pattern rows of two heads. Throws Error(usage) if a number of heads
/// does not divide d.
[[nodiscard]] ExperimentResult heads_experiment(const HeadsOptions& options, Pool& pool);

/// Options of the averaging experiment. A head returns a weighted average of values, so several heads are
/// needed to return several values separately. The targets are the tokens whose values the heads should
/// return.
struct AveragingOptions {
  std::size_t targets = 8;  // largest number of targets
  std::size_t others = 8;   // number of other tokens
  std::size_t d_value = 64;
  double sharpness = 40;     // score of a query and a matching key; all other scores are 0
  std::size_t steps = 2000;  // number of gradient descent steps
  std::uint64_t seed = 0;
};

/// Measures how well h heads return the orthonormal values of t targets, for t from 1 to `targets` and h from
/// 1 to t. Attention is computed from queries and keys. Two errors are measured. The first error is the
/// distance between the sum of the heads' outputs and the sum of the targets' values. It is measured with
/// heads that attend equally to all targets, and with scores found by gradient descent from a random start.
/// Its minimum is (t - h) / sqrt(t). The second error is the distance from the values of all targets, if W_O
/// must return each value separately. It is measured with one target per head. Its minimum is sqrt(t - h),
/// because a map of h outputs has rank h. Throws Error(usage) if d_value is less than targets + others.
[[nodiscard]] ExperimentResult averaging_experiment(const AveragingOptions& options, Pool& pool);

}  // namespace attnctl::textbook

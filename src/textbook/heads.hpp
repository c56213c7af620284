#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/pool.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// What splitting a width among heads costs and gives.
struct HeadsOptions {
  std::size_t d = 512;
  std::vector<std::size_t> heads = {1, 2, 4, 8, 16, 32, 64};  // each divides d
  std::size_t length = 128;
  std::uint64_t seed = 0;
};

/// A row for each number of heads h. Counted: parameters (4 d^2) and multiply-adds, which do not depend on h,
/// bytes of patterns, 4 h n^2, and the bound of the rank of one head's scores, min(n, d / h). Measured on
/// weights of independent normal entries with deviation 1/sqrt(d) and inputs of n tokens with unit
/// variance: the largest numerical rank of a head's scores, numerical rank (largest) and effective rank
/// (mean) of QK over the heads, how many patterns are distinct (no two of which are within 1e-6 everywhere),
/// and the mean total variation between the rows of two heads' patterns. Throws Error(usage) where heads do
/// not divide d.
[[nodiscard]] ExperimentResult heads_experiment(const HeadsOptions& options, Pool& pool);

}  // namespace attnctl

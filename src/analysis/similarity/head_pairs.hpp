#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Sums over rows for all pairs of heads in one block. The similarity measures are computed from these sums.
namespace attnctl {

/// Returns the number of pairs (a, b) with a <= b. Pairs are numbered row by row.
[[nodiscard]] constexpr std::size_t pair_count(std::size_t heads) {
  return heads * (heads + 1) / 2;
}
[[nodiscard]] constexpr std::size_t pair_index(std::size_t heads, std::size_t a, std::size_t b) {
  return a * heads - a * (a + 1) / 2 + b;
}

/// Sums over the rows of patterns [heads, weights], where the weights of a head are its concatenated rows:
/// the Jensen-Shannon divergence (Lin 1991) in nats, and the product of weights. Throws only std::bad_alloc.
struct PatternPairs {
  std::vector<double> divergence;  // [pairs]
  std::vector<double> product;     // [pairs]
};
[[nodiscard]] PatternPairs pattern_pairs(std::span<const float> patterns, std::size_t heads);

/// The outputs z of all heads, concatenated by columns.
struct HeadOutputs {
  std::vector<std::size_t> columns;          // [heads + 1], first column of each head
  std::vector<std::span<const float>> rows;  // each with columns.back() values
};

/// Minimum number of rows for an HSIC estimate.
constexpr std::size_t kLeastOutputs = 4;

/// Returns the unbiased estimate of the Hilbert-Schmidt independence criterion of two heads' outputs for all
/// pairs, [pairs]. Uses linear kernels (Song et al. 2012, HSIC_1). Needs at least kLeastOutputs rows.
[[nodiscard]] std::vector<double> output_pairs(const HeadOutputs& outputs);

}  // namespace attnctl

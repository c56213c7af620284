#pragma once

#include <cstddef>
#include <span>
#include <vector>

// Sums over pattern rows, and dependence of outputs, for all pairs of some heads. The study measure `pairs`
// computes its similarities from them.
namespace attnctl::analysis {

/// Returns the number of pairs (a, b) with a <= b < heads. The pairs are numbered in the order (0, 0), (0,
/// 1), ..., (1, 1), (1, 2), ...; pair_index returns the number of a pair.
[[nodiscard]] constexpr std::size_t pair_count(std::size_t heads) {
  return heads * (heads + 1) / 2;
}
[[nodiscard]] constexpr std::size_t pair_index(std::size_t heads, std::size_t a, std::size_t b) {
  return a * heads - a * (a + 1) / 2 + b;
}

/// Sums for each pair of heads. `divergence` is the sum over all queries of the Jensen-Shannon divergence
/// (Lin 1991) between the two pattern rows of a query, in nats. `product` is the sum of the products of
/// corresponding weights. The argument `patterns` of pattern_pairs is [heads, weights]; the weights of a head
/// are its pattern rows, one after another.
struct PatternPairs {
  std::vector<double> divergence;  // [pairs]
  std::vector<double> product;     // [pairs]
};
[[nodiscard]] PatternPairs pattern_pairs(std::span<const float> patterns, std::size_t heads);

/// The outputs z of all heads. Each row has the outputs of all heads at one position, head after head.
struct HeadOutputs {
  std::vector<std::size_t> columns;          // [heads + 1], first column of each head, then the total
  std::vector<std::span<const float>> rows;  // each with columns.back() values
};

/// Minimum number of rows for an HSIC estimate (see output_pairs).
constexpr std::size_t kLeastOutputs = 4;

/// Returns the unbiased estimate of the Hilbert-Schmidt independence criterion (HSIC) of the outputs of each
/// pair of heads, [pairs]. Uses linear kernels (Song et al. 2012, HSIC_1). Needs at least kLeastOutputs rows.
[[nodiscard]] std::vector<double> output_pairs(const HeadOutputs& outputs);

}  // namespace attnctl::analysis

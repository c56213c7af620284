#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Sums over rows from which the measures of a pair of heads follow, for all pairs of one block.
namespace attnctl {

/// Pairs (a, b) with a <= b are numbered row by row.
[[nodiscard]] constexpr std::size_t pair_count(std::size_t heads) {
  return heads * (heads + 1) / 2;
}
[[nodiscard]] constexpr std::size_t pair_index(std::size_t heads, std::size_t a, std::size_t b) {
  return a * heads - a * (a + 1) / 2 + b;
}

/// Of patterns [heads, weights], rows one behind the other: the sum over rows of the Jensen-Shannon
/// divergence (Lin 1991) in nats, and the sum of products of weights. Throws nothing but std::bad_alloc.
struct PatternPairs {
  std::vector<double> divergence;  // [pairs]
  std::vector<double> product;     // [pairs]
};
[[nodiscard]] PatternPairs pattern_pairs(std::span<const float> patterns, std::size_t heads);

/// Of outputs z, each head's columns beside those of the one before.
struct HeadOutputs {
  std::vector<std::size_t> columns;          // [heads + 1], where a head's begin
  std::vector<std::span<const float>> rows;  // of columns.back() values
};

/// Rows that an estimate of HSIC takes at least.
constexpr std::size_t kLeastOutputs = 4;

/// The unbiased estimate of the Hilbert-Schmidt independence criterion of two heads' outputs with linear
/// kernels (Song et al. 2012, HSIC_1) for all pairs [pairs]. There are kLeastOutputs rows or more.
[[nodiscard]] std::vector<double> output_pairs(const HeadOutputs& outputs);

}  // namespace attnctl

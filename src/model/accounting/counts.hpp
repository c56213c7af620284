#pragma once

#include <cstdint>
#include <initializer_list>

#include "model/config/config.hpp"
#include "results/result.hpp"

/// Arithmetic shared by the accounting functions. Sums and products throw Error(limit) if they exceed 64
/// bits.
namespace attnctl::counts {

[[nodiscard]] std::uint64_t product(std::initializer_list<std::uint64_t> factors);
[[nodiscard]] std::uint64_t sum(std::initializer_list<std::uint64_t> counts);
void add(std::uint64_t& total, std::uint64_t count);
/// Returns a count as a table cell. Throws Error(limit) above 63 bits.
[[nodiscard]] Cell cell(std::uint64_t count);

/// Returns the entries of a weight, or of both factors of a factorized one; also its multiply-adds per row.
[[nodiscard]] std::uint64_t entries(LinearParts parts, std::uint64_t in, std::uint64_t out);
/// Returns the number of matrices in an MLP: 3 if gated, otherwise 2; 0 without an MLP.
[[nodiscard]] std::uint64_t mlp_matrices(const MlpConfig& mlp);
/// Returns the input width of the output matrix.
[[nodiscard]] std::uint64_t head_width(const ModelConfig& config);

}  // namespace attnctl::counts

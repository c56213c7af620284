#pragma once

#include <cstdint>
#include <initializer_list>

#include "model/config/config.hpp"

/// Sums and products of sizes that throw Error(limit) where they leave 64 bits, and what accounting counts
/// by.
namespace attnctl::counts {

[[noreturn]] void too_large();
[[nodiscard]] std::uint64_t product(std::initializer_list<std::uint64_t> factors);
[[nodiscard]] std::uint64_t sum_of(std::initializer_list<std::uint64_t> counts);
void add(std::uint64_t& sum, std::uint64_t count);

/// Entries of a weight, of its two factors where it is factorised: also the multiply-adds of a row.
[[nodiscard]] std::uint64_t entries(LinearParts parts, std::uint64_t in, std::uint64_t out);
/// The same with its bias, of what is stored.
[[nodiscard]] std::uint64_t linear(LinearParts parts, std::uint64_t in, std::uint64_t out);

[[nodiscard]] std::uint64_t mlp_matrices(const MlpConfig& mlp);
/// Of what the decoder of the output head reads.
[[nodiscard]] std::uint64_t head_width(const ModelConfig& config);

}  // namespace attnctl::counts

#include "model/accounting/counts.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"

namespace attnctl::counts {
[[noreturn]] void too_large() {
  fail(Status::limit, "these sizes make counts over 64 bits; need smaller ones");
}

std::uint64_t product(std::initializer_list<std::uint64_t> factors) {
  std::uint64_t result = 1;
  for (const std::uint64_t factor : factors) {
    const auto next = checked_mul(result, factor);
    if (!next) too_large();
    result = *next;
  }
  return result;
}

void add(std::uint64_t& sum, std::uint64_t count) {
  const auto next = checked_add(sum, count);
  if (!next) too_large();
  sum = *next;
}

std::uint64_t sum_of(std::initializer_list<std::uint64_t> counts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) add(sum, count);
  return sum;
}

std::uint64_t entries(LinearParts parts, std::uint64_t in, std::uint64_t out) {
  return parts.rank > 0 ? product({sum_of({in, out}), parts.rank}) : product({in, out});
}

std::uint64_t linear(LinearParts parts, std::uint64_t in, std::uint64_t out) {
  return sum_of({parts.weight ? entries(parts, in, out) : 0, parts.bias ? out : 0});
}

std::uint64_t mlp_matrices(const MlpConfig& mlp) {
  if (mlp.width == 0) return 0;
  return mlp.gated ? 3 : 2;
}

std::uint64_t head_width(const ModelConfig& config) {
  const EmbeddingConfig& embedding = config.output_embedding();
  const bool narrow = config.head.transform || config.head.tied || config.head.projection.weight;
  return narrow ? embedding.width : config.d_model;
}

}  // namespace attnctl::counts

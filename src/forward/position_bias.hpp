#pragma once

#include "attnctl/model/config.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forward/attention.hpp"
#include "forward/visibility.hpp"

namespace attnctl::forward {

/// The bucket of a key that is `distance` positions after the query (before it: negative), as T5 counts:
/// the logarithm in float32, as the reference implementation has it.
[[nodiscard]] std::size_t relative_bucket(const RelativeBuckets& config, std::int64_t distance);

/// What position adds to the scaled scores of one head in one sequence.
class PositionBias {
 public:
  PositionBias(const AttentionLayer& layer, const Part& part, std::size_t head);

  /// scores[t] += the bias of query i and key keys.first + t * keys.step.
  void add(std::size_t i, KeySteps keys, std::span<float> scores) const;

 private:
  std::size_t queries_;
  std::vector<float> by_distance_;  // [queries + keys - 1], of key - query + queries - 1; empty: none
};

}  // namespace attnctl::forward

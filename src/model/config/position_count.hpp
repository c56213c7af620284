#pragma once

#include <cstdint>

#include "model/config/config.hpp"

namespace attnctl {

/// Parameters of what positions add to scores, and of a convolution over embeddings. Throws Error(limit)
/// where they do not fit into 64 bits.
struct PositionParameters {
  std::uint64_t tables = 0;  // of a stack, each once
  std::uint64_t table_norms = 0;
  std::uint64_t convolution = 0;
  std::uint64_t convolution_norms = 0;
};
[[nodiscard]] PositionParameters count_position_parameters(const ModelConfig& config);

/// Of the projections of the table in one layer; `biases` among them.
struct DistanceProjections {
  std::uint64_t all = 0, biases = 0;
};
[[nodiscard]] DistanceProjections count_distance_projections(const ModelConfig& config,
                                                             const AttentionConfig& attention);

}  // namespace attnctl

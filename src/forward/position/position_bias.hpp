#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/attention/attention.hpp"
#include "forward/attention/visibility.hpp"
#include "forward/position/alibi.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// The bucket of a key that is `distance` positions after the query (before it: negative), as T5 counts:
/// the logarithm in float32, as the reference implementation has it.
[[nodiscard]] std::size_t relative_bucket(const RelativeBuckets& config, std::int64_t distance);

/// The row of the table for a query that is `distance` positions after the key, as DeBERTa counts; float32
/// as above.
[[nodiscard]] std::size_t disentangled_row(const DisentangledConfig& config, std::int64_t distance);

/// What position adds to the scaled scores of one head in one sequence.
class PositionBias {
 public:
  /// The head's own queries [n, k] and keys [m, k].
  struct Head {
    MatrixView<const float> q, k;
  };
  /// `sequence` is that of the keys.
  PositionBias(const AttentionLayer& layer, const Sequence& sequence, std::size_t head, const Head& own);

  /// scores[t] += the bias of query i and key keys.first + t * keys.step.
  void add(std::size_t i, KeySteps keys, std::span<float> scores) const;

 private:
  void fill_disentangled(const AttentionLayer& layer, std::size_t head, const Head& own);

  Alibi alibi_;
  std::size_t queries_;
  double scale_;
  std::vector<float> by_distance_;         // [queries + keys - 1], of key - query + queries - 1; empty: none
  std::vector<std::uint32_t> rows_;        // of disentangled attention, by the same distance
  OwnedMatrix<float> content_, position_;  // [queries, rows], [keys, rows]: products with those rows
};

}  // namespace attnctl::forward

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/attention/visibility.hpp"
#include "forward/layers/dense.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// Adds PE(p, 2i) = sin(p / 10000^(2i/d)) and PE(p, 2i+1) = cos of the same angle to row p of x [n, d].
void add_sinusoidal(MatrixView<float> x);

/// Adds sin(p / 10000^(2j/d)) to column j < d / 2 (rounded up) of row p, and the cosines to the other
/// columns.
void add_sinusoidal_halves(MatrixView<float> x);

/// Cosines and sines of rotary positions, [positions, r/2] each. They are computed in float32 as the
/// reference implementation does: the cosf and sinf of float(position) * inverse_frequency, times the
/// attention factor.
struct RotaryTable {
  OwnedMatrix<float> cosine, sine;
};

/// The rotary tables of a model, each computed once for the longest sequence so far.
class RotaryTables {
 public:
  /// Returns the table for a sequence of `length` positions. It is valid until the next call.
  [[nodiscard]] const RotaryTable& table(const RotaryConfig& config, std::size_t length);

 private:
  std::map<std::pair<const RotaryConfig*, bool>, RotaryTable> tables_;
};

/// Rotates the first r columns of each head in x [n, heads * d_head], row p by the angles of position p.
void rotate(Pool& pool, const RotaryConfig& config, const RotaryTable& table, std::size_t d_head,
            MatrixView<float> x);

/// Returns the T5 bucket of a key at `distance` = key - query. The logarithm is float32, as in the reference
/// implementation.
[[nodiscard]] std::size_t relative_bucket(const RelativeBuckets& config, std::int64_t distance);

/// Returns the DeBERTa table row for `distance` = query - key, with a float32 logarithm too.
[[nodiscard]] std::size_t disentangled_row(const DisentangledConfig& config, std::int64_t distance);

/// The embedded distances of disentangled attention, projected to keys and queries of all heads [2 span,
/// heads k]. Without data if the layer has no such term.
struct ProjectedDistances {
  MatrixView<const float> keys, queries;
};

/// Projects the table of distances of a layer.
class DistanceTable {
 public:
  /// The result is valid until the next call.
  [[nodiscard]] ProjectedDistances project(Pool& pool, const AttentionConfig& config,
                                           const AttentionWeights& weights);

 private:
  Buffer normed_, keys_, queries_;
};

/// The terms that positions add to the scaled scores of one head in one sequence: ALiBi, T5 buckets and
/// disentangled attention.
class PositionBias {
 public:
  /// Weights that a layer's heads share.
  struct Tables {
    MatrixView<const float> relative_bias;  // [buckets, heads]
    ProjectedDistances distances;
  };
  /// The queries [n, k] and keys [m, k] of the head.
  struct Operands {
    MatrixView<const float> q, k;
  };
  /// `sequence` is that of the keys.
  PositionBias(const AttentionConfig& config, const Tables& tables, const Sequence& sequence,
               std::size_t head, const Operands& operands);

  /// Adds the biases of query i to the scores of these keys.
  void add(std::size_t i, KeySteps keys, std::span<float> scores) const;

 private:
  void prepare_alibi(const AttentionConfig& config, const Sequence& sequence, std::size_t head);
  void prepare_disentangled(const AttentionConfig& config, const ProjectedDistances& distances,
                            std::size_t head, const Operands& operands);

  std::size_t queries_;
  double scale_;
  std::vector<float> alibi_;               // [keys] or empty
  std::vector<float> relative_;            // [queries + keys - 1], at key - query + queries - 1; or empty
  std::vector<std::uint32_t> rows_;        // disentangled: the row of each distance, in the same order
  OwnedMatrix<float> content_, position_;  // [queries, rows], [keys, rows]: products with those rows
};

}  // namespace attnctl::forward

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
#include "forward/layers/layers.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// Adds sin(p / 10000^(2j/d)) and the cosine of the same angle to two columns of each row p of x [n, d], for
/// every j < d / 2: to columns 2j and 2j + 1, or, with `halves`, to columns j and j + d / 2 (rounded up). If
/// d is odd, the last sine has no cosine.
void add_sinusoidal(MatrixView<float> x, bool halves);

/// Cosines and sines of rotary positions, each [positions, r/2], where r is the number of rotated dimensions.
/// They are computed in float32 like the original implementation: cosf and sinf of float(position) *
/// inverse_frequency, multiplied by the attention factor.
struct RotaryTable {
  OwnedMatrix<float> cosine, sine;
};

/// The rotary tables of a model. Each table is computed again only for a longer sequence.
class RotaryTables {
 public:
  /// Returns the table for sequences of `length` positions. Valid until the next call.
  [[nodiscard]] const RotaryTable& table(const model::RotaryConfig& config, std::size_t length);

 private:
  std::map<std::pair<const model::RotaryConfig*, bool>, RotaryTable> tables_;
};

/// Rotates the first config.dims columns of each head in x [n, heads * d_head], row p for position p.
void rotate(Pool& pool, const model::RotaryConfig& config, const RotaryTable& table, std::size_t d_head,
            MatrixView<float> x);

/// Returns the T5 bucket for `distance` = key - query position. Uses a float32 logarithm like the original.
[[nodiscard]] std::size_t relative_bucket(const model::RelativeBuckets& config, std::int64_t distance);

/// Returns the row of DeBERTa's distance table for `distance` = query - key position. Computes
/// logarithms in float32 like the original.
[[nodiscard]] std::size_t disentangled_row(const model::DisentangledConfig& config, std::int64_t distance);

/// The distance embeddings of disentangled attention, projected to the keys and queries of all heads. Each
/// matrix is [2 span, heads * k]; it has no data if the layer does not use it.
struct ProjectedDistances {
  MatrixView<const float> keys, queries;
};

class DistanceTable {
 public:
  /// Returns the projected embeddings. Valid until the next call.
  [[nodiscard]] ProjectedDistances project(Pool& pool, const model::AttentionConfig& config,
                                           const model::AttentionWeights& weights);

 private:
  Buffer normed_, keys_, queries_;
};

/// The terms that ALiBi, T5 buckets and disentangled attention add to the scaled scores of a head.
class PositionBias {
 public:
  /// Position weights of all heads of a layer.
  struct Tables {
    MatrixView<const float> relative_bias;  // [rows, heads], row b for bucket b
    ProjectedDistances distances;
  };
  /// q [n, k] and k [m, k] are the queries and keys of the head, `sequence` is the sequence of the keys.
  PositionBias(const model::AttentionConfig& config, const Tables& tables, const input::Sequence& sequence,
               std::size_t head, MatrixView<const float> q, MatrixView<const float> k);

  /// Adds the position terms to the scores of query i and these keys.
  void add(std::size_t i, KeySteps keys, std::span<float> scores) const;

 private:
  /// Computes the products of queries and keys with distance embeddings, only for the range of table rows
  /// that the distances in the sequence use.
  void multiply_distances(const model::AttentionConfig& config, const ProjectedDistances& distances,
                          std::size_t head, MatrixView<const float> q, MatrixView<const float> k);

  std::size_t queries_;
  double scale_;
  std::vector<float> alibi_;  // [keys], or empty without ALiBi
  /// [queries + keys - 1], at index key - query + queries - 1; empty without T5 buckets.
  std::vector<float> relative_;
  /// [queries + keys - 1], at the same index as in relative_: the column of content_ and position_. Empty
  /// without disentangled attention.
  std::vector<std::uint32_t> rows_;
  /// [queries, c] and [keys, c], for a range of c table rows; empty if the term is not used.
  OwnedMatrix<float> content_, position_;
};

}  // namespace attnctl::forward

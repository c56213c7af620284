#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/attention/visibility.hpp"
#include "forward/block.hpp"
#include "forward/layers/layers.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "linalg/gemm.hpp"
#include "model/model.hpp"

// Positions (positions.cpp) and attention (attention.cpp) of one layer.
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

/// The rotary tables of a model. The bool is true for the table for long sequences.
using RotaryTables = std::map<std::pair<const model::RotaryConfig*, bool>, RotaryTable>;

/// Returns the table for `length` positions. Computes it only if the length exceeds that of earlier calls.
[[nodiscard]] const RotaryTable& rotary_table(RotaryTables& tables, const model::RotaryConfig& config,
                                              std::size_t length);

/// Rotates the first config.dims columns of each head in x [n, heads * d_head], row p for position p.
void rotate(Pool& pool, const model::RotaryConfig& config, const RotaryTable& table, std::size_t d_head,
            MatrixView<float> x);

/// Returns the T5 bucket for `distance` = key - query position. Uses a float32 logarithm like the original.
[[nodiscard]] std::size_t relative_bucket(const model::RelativeBuckets& config, std::int64_t distance);

/// Returns the row of DeBERTa's distance table for `distance` = query - key position. Computes
/// logarithms in float32 like the original.
[[nodiscard]] std::size_t disentangled_row(const model::DisentangledConfig& config, std::int64_t distance);

/// Tables for the position terms of all heads of a layer.
struct PositionTables {
  MatrixView<const float> relative_bias;  // [rows, heads], row b for bucket b
  /// The distance embeddings of disentangled attention, projected to the keys and queries of all heads. Each
  /// matrix is [2 span, heads * k]; it has no data if the layer does not use it.
  MatrixView<const float> distance_keys, distance_queries;
};

struct DistanceBuffers {
  Buffer normed, keys, queries;
};

/// Returns the tables of a layer. distance_keys and distance_queries are stored in `buffers`.
[[nodiscard]] PositionTables position_tables(Pool& pool, const model::AttentionConfig& config,
                                             const model::AttentionWeights& weights,
                                             DistanceBuffers& buffers);

/// The terms that ALiBi, T5 buckets and disentangled attention add to the scaled scores of a head.
class PositionBias {
 public:
  /// q [n, k] and k [m, k] are the queries and keys of the head, `sequence` is the sequence of the keys.
  PositionBias(const model::AttentionConfig& config, const PositionTables& tables,
               const input::Sequence& sequence, std::size_t head, MatrixView<const float> q,
               MatrixView<const float> k);

  /// Adds the position terms to the scores of query i and these keys.
  void add(std::size_t i, KeySteps keys, std::span<float> scores) const;

 private:
  /// Computes the products of queries and keys with distance embeddings, only for the range of table rows
  /// that the distances in the sequence use.
  void multiply_distances(const model::AttentionConfig& config, const PositionTables& tables,
                          std::size_t head, MatrixView<const float> q, MatrixView<const float> k);

  std::size_t queries_;
  double scale_;
  std::vector<float> alibi_;  // [keys], the ALiBi terms; empty without ALiBi
  /// [queries + keys - 1], the T5 terms, at index key - query + queries - 1; empty without T5 buckets.
  std::vector<float> relative_;
  /// [queries + keys - 1], at the same index as in relative_: the column of content_ and position_. Empty
  /// without disentangled attention.
  std::vector<std::uint32_t> rows_;
  /// Products with a range of c table rows: [queries, c] and [keys, c]. Empty if the term is not used.
  OwnedMatrix<float> content_, position_;
};

/// The data of one layer and one Block that all heads share.
struct AttentionLayer {
  const model::AttentionConfig& config;
  std::size_t layer = 0;
  MatrixView<const float> q;          // [rows, query_slices * k], after rotary positions
  MatrixView<const float> k;          // [key rows, kv_heads * k], after rotary positions
  MatrixView<const float> v;          // [key rows, kv_heads * v]; empty if no values are needed
  MatrixView<float> z;                // [rows, heads * v]; empty if z is not needed
  std::span<const float> sinks = {};  // [heads] or empty
  bool scores = false;                // observers need the scores
  std::size_t panel_rows = 128;
  /// Observers need patterns or scores. If false, linear and strided attention compute no patterns.
  bool patterns = true;
  PositionTables positions = {};
};

/// A warning about rows of patterns: the number of rows, and the position of the first one.
struct RowWarning {
  std::uint64_t count = 0;
  model::HeadId head;
  std::size_t sequence = 0, query = 0;

  void add(const RowWarning& later);
};

struct RowWarnings {
  RowWarning fully_masked, non_finite, infinite_score;
};

/// The rows of a panel [rows, keys]. Values outside the visible range of a row are `filler`. Values that stay
/// `filler` in the next panel are not written again, so that the time for a panel depends on the number of
/// visible keys, not on the number of all keys.
class PanelRows {
 public:
  explicit PanelRows(float filler) : filler_(filler) {}

  void reserve(std::size_t rows, std::size_t elements);

  /// Returns rows whose values are `filler` outside of `written` and undefined inside.
  [[nodiscard]] MatrixView<float> open(std::size_t rows, std::size_t keys, KeyRange written);
  /// Writes `filler` to row r in the range of the last open(), except for the keys in `visible`.
  void close(std::size_t r, KeyRange visible);

 private:
  void fill(std::size_t r, KeyRange range);

  float filler_;
  std::size_t keys_ = 0;  // number of keys per row
  KeyRange opened_;
  std::vector<float> values_;
  std::vector<KeyRange> written_;  // for each row, the range whose values may differ from `filler`
};

/// The memory that one worker uses for all its panels.
struct PanelBuffers {
  PanelRows pattern{0};
  PanelRows scores{-std::numeric_limits<float>::infinity()};
  linalg::PackedMatrix keys, values;  // k^T and v of the current head and sequence
  std::vector<float> sink_scores;     // the scores of one query, followed by the sink
  std::vector<float> strided_row;     // the scores, later the weights, of one query in strided attention
  std::vector<double> sums;           // for linear attention
  std::vector<std::uint8_t> fully_masked;

  /// Allocates memory that is large enough for the panels of a Block.
  void reserve(const Block& block, const AttentionLayer& layer);
};

/// Returns the rows per panel: `wanted`, or fewer (at least 24) if a panel [wanted, keys] exceeds 1 MiB.
[[nodiscard]] std::size_t rows_of_panel(std::size_t wanted, std::size_t keys);

/// Computes scores, pattern and z of one head, as far as needed, for all sequences of a Block.
/// Passes each panel to the observers, which may be none. Returns warnings about rows of the pattern.
[[nodiscard]] RowWarnings attend(const AttentionLayer& layer, const input::Batch& batch, const Block& block,
                                 std::size_t head, std::span<Observer* const> observers,
                                 PanelBuffers& buffers);

}  // namespace attnctl::forward

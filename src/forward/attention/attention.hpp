#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/attention/positions.hpp"
#include "forward/block.hpp"
#include "forward/observer.hpp"
#include "input/batch.hpp"
#include "linalg/gemm.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

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
  PositionBias::Tables positions = {};
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
  std::size_t filled_ = 0;         // number of rows that have been filled
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

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

/// The data that all heads of a layer share for one block.
struct AttentionLayer {
  const AttentionConfig& config;
  std::size_t layer = 0;
  MatrixView<const float> q;          // [rows, query_slices k], rotated
  MatrixView<const float> k;          // [key rows, kv_heads k], rotated
  MatrixView<const float> v;          // [key rows, kv_heads v]; empty if no values are needed
  MatrixView<float> z;                // [rows, heads v]; empty if z is not needed
  std::span<const float> sinks = {};  // [heads] or empty
  bool scores = false;                // observers read the scores
  std::size_t panel_rows = 128;
  bool patterns = true;  // observers read the patterns; else linear and strided attention compute none
  PositionBias::Tables positions = {};
};

/// The rows that a warning is about: their number and the first of them.
struct RowWarning {
  std::uint64_t count = 0;
  HeadId head;
  std::size_t sequence = 0, query = 0;

  void add(const RowWarning& later);
};

struct RowWarnings {
  RowWarning fully_masked, non_finite, infinite_score;
};

/// The rows of a panel [rows, keys]. Values outside the visible range of a row are a filler, which stays from
/// one panel to the next: the cost of a panel grows with its visible keys, not with all keys.
class PanelRows {
 public:
  explicit PanelRows(float filler) : filler_(filler) {}

  void reserve(std::size_t rows, std::size_t elements);

  /// Returns rows that hold the filler outside of `written` and undefined values inside.
  [[nodiscard]] MatrixView<float> open(std::size_t rows, std::size_t keys, KeyRange written);
  /// Fills row r outside of `visible`, a range inside the one that was opened.
  void close(std::size_t r, KeyRange visible);

 private:
  void fill(std::size_t r, KeyRange range);

  float filler_;
  std::size_t keys_ = 0;  // length of a row
  KeyRange opened_;
  std::vector<float> values_;
  std::vector<KeyRange> written_;  // of each row
  std::size_t filled_ = 0;         // number of rows that hold the filler outside of `written_`
};

/// The memory that one worker reuses for every panel.
class PanelBuffers {
 public:
  /// Makes room for the panels of a block.
  void reserve(const Block& block, const AttentionLayer& layer);

 private:
  friend class HeadPass;
  PanelRows pattern_{0};
  PanelRows scores_{-std::numeric_limits<float>::infinity()};
  PackedMatrix keys_, values_;      // k^T and v of the current head and sequence
  std::vector<float> sink_scores_;  // the scores of one query and its sink
  std::vector<float> strided_row_;  // scores, then weights, of one query's visible keys
  std::vector<double> sums_;        // of linear attention
  std::vector<std::uint8_t> fully_masked_;
};

/// Returns the number of query rows per panel: `wanted`, or fewer if there are many keys, so that a panel
/// fits into the cache.
[[nodiscard]] std::size_t rows_of_panel(std::size_t wanted, std::size_t keys);

/// Computes scores, pattern and z of one head for all sequences of a block, and passes each panel to the
/// observers, which may be none. Returns warnings about rows of the pattern.
[[nodiscard]] RowWarnings attend(const AttentionLayer& layer, const Batch& batch, const Block& block,
                                 std::size_t head, std::span<Observer* const> observers,
                                 PanelBuffers& buffers);

}  // namespace attnctl::forward

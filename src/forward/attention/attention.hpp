#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/attention/panel_rows.hpp"
#include "forward/block.hpp"
#include "forward/observer.hpp"
#include "forward/position/position_table.hpp"
#include "input/batch.hpp"
#include "linalg/gemm.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// What all heads of a layer share while a block passes through it.
struct AttentionLayer {
  const AttentionConfig& config;
  std::size_t layer = 0;
  MatrixView<const float> q;          // [rows, query_slices k], rotated
  MatrixView<const float> k;          // [key rows, kv_heads k], rotated
  MatrixView<const float> v;          // [key rows, kv_heads v]; empty where no values are needed
  MatrixView<float> z;                // [rows, heads v]; empty where z is not needed
  std::span<const float> sinks = {};  // [heads] or empty
  bool scores = false;                // observers see them
  std::size_t panel_rows = 128;
  bool patterns = true;  // observers need them; else linear and strided attention make none
  MatrixView<const float> relative_bias = {};  // of AttentionConfig::relative_buckets
  PositionRows positions = {};                 // of AttentionConfig::disentangled
};

/// Rows of which something must be said, and the first of them.
struct RowCount {
  std::uint64_t count = 0;
  std::size_t sequence = 0, query = 0;

  void add(std::size_t in_sequence, std::size_t at_query);
};

struct HeadReport {
  RowCount fully_masked, non_finite, infinite_score;
};

/// What a worker keeps of one panel.
class PanelBuffers {
 public:
  /// Room for the panels of this block.
  void reserve(const Block& block, const AttentionLayer& layer);

 private:
  friend class HeadPass;
  PanelRows pattern_{0};
  PanelRows scores_{-std::numeric_limits<float>::infinity()};
  PackedMatrix keys_, values_;  // k^T and v of the head and sequence at work
  std::vector<float> sunk_;     // scores of one query and its sink's
  std::vector<float> row_;      // scores, then weights, of one query's visible keys
  std::vector<double> sums_;    // of linear attention
  std::vector<std::uint8_t> fully_masked_;
};

/// Query rows of a panel: at most `wanted`, fewer where keys are many, so that a panel stays in the cache.
[[nodiscard]] std::size_t rows_of_panel(std::size_t wanted, std::size_t keys);

/// One head over the sequences of a block, in order: scores, pattern and z panel by panel, each shown to the
/// observers (none: the head was not selected).
[[nodiscard]] HeadReport attend(const AttentionLayer& layer, const Batch& batch, const Block& block,
                                std::size_t head, std::span<Observer* const> observers,
                                PanelBuffers& buffers);

}  // namespace attnctl::forward

#pragma once

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/buffer.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// The embedded distances of disentangled attention as keys and queries of a layer, all heads side by side.
struct PositionRows {
  MatrixView<const float> keys, queries;  // [2 span, heads k]; no data: the layer has no such term
};

/// Projects the table of distances. What it returns is valid until the next call.
class PositionTable {
 public:
  [[nodiscard]] PositionRows project(Pool& pool, const AttentionConfig& config,
                                     const AttentionWeights& weights);

 private:
  Buffer normed_, keys_, queries_;
};

}  // namespace attnctl::forward

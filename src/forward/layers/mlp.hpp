#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/layers/dense.hpp"
#include "forward/observer.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// Rows that go through the MLP at a time: its inner width is several times the model's.
inline constexpr std::size_t kMlpRows = 1024;

/// Memory of the MLP for kMlpRows rows.
struct MlpBuffers {
  Buffer normed, inner, gate, out;
};

/// Computes x += M(x), with the norms of the layer, for x [rows, d_model]. Does nothing if the layer has no
/// MLP. Appends the expert route of each row to `routes` if it is not null.
void add_mlp(Pool& pool, const LayerConfig& config, const LayerWeights& weights, MlpBuffers& buffers,
             MatrixView<float> x, std::vector<ExpertRoute>* routes = nullptr);

}  // namespace attnctl::forward

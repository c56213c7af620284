#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/layers/dense.hpp"
#include "forward/observer.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// Number of rows for which the MLP is computed at once. The limit bounds the memory, because the inner width
/// of an MLP is several times d_model.
inline constexpr std::size_t kMlpRows = 1024;

/// Memory of the MLP for kMlpRows rows.
struct MlpBuffers {
  Buffer normed, inner, gate, out;
};

/// Adds the output of the layer's MLP or experts to x [rows, d_model], with the norms and the residual
/// multiplier of the layer. Does nothing if the layer has no MLP. Appends the experts of each row to `routes`
/// if `routes` is not null.
void add_mlp(Pool& pool, const model::LayerConfig& config, const model::LayerWeights& weights,
             MlpBuffers& buffers, MatrixView<float> x, std::vector<ExpertRoute>* routes = nullptr);

}  // namespace attnctl::forward

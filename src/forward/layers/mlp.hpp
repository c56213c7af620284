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

/// Adds the layer's MLP to x [rows, d_model], with the norms where NormPlace has them; for example x = N(x +
/// MLP(x)) for NormPlace::post. The output of the MLP is multiplied by residual_multiplier before it is
/// added. Does nothing if the layer has no MLP. If the layer has experts and `routes` is not null, appends
/// the experts of each row to `routes`.
void add_mlp(Pool& pool, const model::LayerConfig& config, const model::LayerWeights& weights,
             MlpBuffers& buffers, MatrixView<float> x, std::vector<ExpertRoute>* routes = nullptr);

}  // namespace attnctl::forward

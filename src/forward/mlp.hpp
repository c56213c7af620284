#pragma once

#include "attnctl/base/matrix_view.hpp"
#include "attnctl/base/pool.hpp"
#include "attnctl/model/config.hpp"
#include "attnctl/model/model.hpp"

#include "forward/buffer.hpp"

namespace attnctl::forward {

/// Memory of the MLP, a bounded number of rows at a time.
struct MlpBuffers {
  Buffer normed, inner, gate;
};

/// x + M(N(x)), N(x + M(x)) or x + M(x), as the layer places its norm, in place of x [rows, d_model]. Nothing
/// where the layer has no MLP.
void add_mlp(Pool& pool, const LayerConfig& config, const LayerWeights& weights, MlpBuffers& buffers,
             MatrixView<float> x);

}  // namespace attnctl::forward

#pragma once

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/block.hpp"
#include "forward/buffer.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// Adds a layer's convolution over the embeddings to its output.
class Convolution {
 public:
  /// Keeps the embeddings [rows, d] where a layer needs them.
  void keep(const ModelConfig& config, MatrixView<const float> embeddings);

  /// x = N(x + act(conv(embeddings))), sequence by sequence; nothing where the layer has no convolution.
  void add(Pool& pool, const Block& block, const LayerConfig& config, const LayerWeights& weights,
           MatrixView<float> x);

 private:
  Buffer embeddings_, windows_, out_;
  MatrixView<const float> kept_;
};

}  // namespace attnctl::forward

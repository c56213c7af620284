#include "forward/mlp.hpp"

#include <algorithm>

#include "forward/dense.hpp"
#include "forward/norm.hpp"

namespace attnctl::forward {
namespace {

/// Rows that go through the MLP together: its inner width is several times the model's.
constexpr std::size_t mlp_rows = 1024;

void add_mlp_of_rows(Pool& pool, const LayerConfig& config, const LayerWeights& weights, MlpBuffers& buffers,
                     MatrixView<float> x) {
  MatrixView<const float> input = x;
  if (config.place == NormPlace::pre) {
    const MatrixView<float> normed = buffers.normed.take(x.rows, x.cols);
    apply_norm(pool, config.norm, weights.mlp_norm, x, normed);
    input = normed;
  }
  Dense up{input, weights.up, buffers.inner.take(x.rows, config.mlp.width)};
  if (config.mlp.gated) {
    const Dense gate{input, weights.gate, buffers.gate.take(x.rows, config.mlp.width), config.mlp.activation};
    run_gated(pool, gate, up);
  } else {
    up.activation = config.mlp.activation;
    run_dense(pool, {&up, 1});
  }
  Dense down{up.out, weights.down, x};
  down.accumulate = true;
  run_dense(pool, {&down, 1});
  if (config.place == NormPlace::post) apply_norm(pool, config.norm, weights.mlp_norm, x, x);
}

}  // namespace

void add_mlp(Pool& pool, const LayerConfig& config, const LayerWeights& weights, MlpBuffers& buffers,
             MatrixView<float> x) {
  if (config.mlp.width == 0) return;
  for (std::size_t first = 0; first < x.rows; first += mlp_rows) {
    add_mlp_of_rows(pool, config, weights, buffers, x.row_range(first, std::min(mlp_rows, x.rows - first)));
  }
}

}  // namespace attnctl::forward

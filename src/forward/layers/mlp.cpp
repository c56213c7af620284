#include "forward/layers/mlp.hpp"

#include <algorithm>

#include "forward/layers/dense.hpp"
#include "forward/layers/experts.hpp"
#include "forward/layers/norm.hpp"

namespace attnctl::forward {
namespace {

/// The MLP's output goes through a norm, or is scaled, before it is added.
bool is_changed(const LayerConfig& config) {
  return config.place == NormPlace::output || config.place == NormPlace::both ||
         config.residual_multiplier != 1 || config.experts.count > 0;
}

void add_mlp_of_rows(Pool& pool, const LayerConfig& config, const LayerWeights& weights, MlpBuffers& buffers,
                     MatrixView<float> x, std::vector<ExpertRoute>* routes) {
  MatrixView<const float> input = x;
  if (config.place == NormPlace::stream) apply_norm(pool, config.norm, weights.mlp_norm, x, x);
  if (config.place == NormPlace::pre || config.place == NormPlace::both) {
    const MatrixView<float> normed = buffers.normed.take(x.rows, x.cols);
    apply_norm(pool, config.norm, weights.mlp_norm, x, normed);
    input = normed;
  }
  Dense down;
  down.out = is_changed(config) ? buffers.out.take(x.rows, x.cols) : x;
  down.accumulate = !is_changed(config);
  if (config.experts.count > 0) {
    run_experts(pool, config, weights, buffers, input, down.out, routes);
  } else {
    run_mlp(pool, config.mlp, weights.mlp, buffers, input, down);
  }
  if (is_changed(config)) {
    if (config.place == NormPlace::output)
      apply_norm(pool, config.norm, weights.mlp_norm, down.out, down.out);
    if (config.place == NormPlace::both)
      apply_norm(pool, config.norm, weights.mlp_output_norm, down.out, down.out);
    add_rows(pool, down.out, x, config.residual_multiplier);
  }
  if (config.place == NormPlace::post) apply_norm(pool, config.norm, weights.mlp_norm, x, x);
}

}  // namespace

void run_mlp(Pool& pool, const MlpConfig& config, const MlpWeights& weights, MlpBuffers& buffers,
             MatrixView<const float> input, Dense down) {
  Dense up{input, weights.up, buffers.inner.take(input.rows, weights.up.out())};
  if (config.gated) {
    const Dense gate{input, weights.gate, buffers.gate.take(input.rows, weights.up.out()), config.activation};
    run_gated(pool, gate, up);
  } else {
    up.activation = config.activation;
    run_dense(pool, {&up, 1});
  }
  down.x = up.out;
  down.weights = weights.down;
  run_dense(pool, {&down, 1});
}

void add_mlp(Pool& pool, const LayerConfig& config, const LayerWeights& weights, MlpBuffers& buffers,
             MatrixView<float> x, std::vector<ExpertRoute>* routes) {
  if (config.mlp.width == 0) return;
  for (std::size_t first = 0; first < x.rows; first += mlp_rows) {
    add_mlp_of_rows(pool, config, weights, buffers, x.row_range(first, std::min(mlp_rows, x.rows - first)),
                    routes);
  }
}

}  // namespace attnctl::forward

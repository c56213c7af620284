#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/buffer.hpp"
#include "forward/layers/dense.hpp"
#include "forward/observer.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// Rows that go through the MLP together: its inner width is several times the model's.
inline constexpr std::size_t mlp_rows = 1024;

/// Memory of the MLP, a bounded number of rows at a time.
struct MlpBuffers {
  Buffer normed, inner, gate, out;
};

/// down(act(...)) of the rows of `input` [rows, d_model], to down.out [rows, d_model] or added to it, as
/// `down` says; its input and weights are set here.
void run_mlp(Pool& pool, const MlpConfig& config, const MlpWeights& weights, MlpBuffers& buffers,
             MatrixView<const float> input, Dense down);

/// x + M(x), normalised where the layer places its norms, in place of x [rows, d_model]. Nothing where the
/// layer has no MLP. The routes of a layer with experts are appended to `routes`, where that is not null.
void add_mlp(Pool& pool, const LayerConfig& config, const LayerWeights& weights, MlpBuffers& buffers,
             MatrixView<float> x, std::vector<ExpertRoute>* routes = nullptr);

}  // namespace attnctl::forward

#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/layers/mlp.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// The routes of rows of router scores [rows, experts].
[[nodiscard]] std::vector<ExpertRoute> route(const ExpertsConfig& config, MatrixView<const float> scores);

/// out = the weighted sum of what each row's experts make of it, and of the shared expert; rows [rows,
/// d_model]. `routes`, where not null, is given the route of each row.
void run_experts(Pool& pool, const LayerConfig& config, const LayerWeights& weights, MlpBuffers& buffers,
                 MatrixView<const float> input, MatrixView<float> out, std::vector<ExpertRoute>* routes);

}  // namespace attnctl::forward

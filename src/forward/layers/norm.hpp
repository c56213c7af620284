#pragma once

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// out = N(x) row by row; x and out [rows, width] may be the same memory. A kind of none copies.
void apply_norm(Pool& pool, const NormConfig& config, const NormWeights& weights, MatrixView<const float> x,
                MatrixView<float> out);

/// The gains and biases of one head, which may have its own.
[[nodiscard]] NormWeights head_gains(const AttentionConfig& config, const NormWeights& norm,
                                     std::size_t head);

/// x += factor y.
void add_rows(Pool& pool, MatrixView<const float> y, MatrixView<float> x, float factor = 1);

}  // namespace attnctl::forward

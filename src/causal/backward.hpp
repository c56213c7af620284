#pragma once

#include <span>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/attention/attention.hpp"
#include "forward/block.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// The steps of the backward pass in float32. d_x is the derivative of a number with respect to x, and has the
// shape of x.
namespace attnctl::causal {

using FloatRows = OwnedMatrix<float>;
using FloatView = MatrixView<const float>;

/// Returns x W + b [rows, out] of x [rows, in].
[[nodiscard]] FloatRows projected(Pool& pool, const model::Linear& linear, FloatView x);
/// Returns d_x [rows, in] for y = x W + b, given d_y [rows, out].
[[nodiscard]] FloatRows back_dense(Pool& pool, const model::Linear& linear, FloatView d_y);

/// Returns N(x).
[[nodiscard]] FloatRows normalised(Pool& pool, const model::NormConfig& config,
                                   const model::NormWeights& weights, FloatView x);
/// Changes d from d_y to d_x for y = N(x).
void back_norm(Pool& pool, const model::NormConfig& config, const model::NormWeights& weights, FloatView x,
               MatrixView<float> d);

/// Returns act(x), and the derivative of act at x. The derivative of relu at 0 is 0.
struct Activated {
  float value = 0, slope = 0;
};
[[nodiscard]] Activated activated(model::Activation activation, float x);

/// Returns d_x [rows, d] of the MLP or the experts of a layer, given d_output [rows, d]. x is their input,
/// after the norm of the layer.
[[nodiscard]] FloatRows back_mlp(Pool& pool, const model::LayerConfig& config,
                                 const model::LayerWeights& weights, FloatView x, FloatView d_output);

/// The attention of one layer for the sequences of a Block.
struct AttentionInputs {
  const model::AttentionConfig& config;
  const model::AttentionWeights& weights;
  const input::Batch& batch;
  const forward::Block& block;
  FloatView queries;  // [rows, d], the input of the queries
  FloatView keys;     // [key rows, d], the input of keys and values
};

struct AttentionDerivatives {
  FloatRows d_queries, d_keys;  // the shapes of `queries` and `keys`
};

/// Returns the derivatives of the inputs of an attention, given d_z [rows, heads * v]. Computes the patterns
/// again, in panels of `panel_rows` queries.
[[nodiscard]] AttentionDerivatives back_attention(Pool& pool, const AttentionInputs& inputs, FloatView d_z,
                                                  std::size_t panel_rows);

}  // namespace attnctl::causal

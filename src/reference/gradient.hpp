#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "input/batch.hpp"
#include "linalg/matrix.hpp"
#include "model/model.hpp"
#include "reference/layers.hpp"
#include "reference/reference.hpp"

// The steps of the backward pass in float64. d_x is the derivative of a scalar with respect to x, and has the
// shape of x. The scalar is any function of the logits.
namespace attnctl::reference {

/// Returns d_x [n, in] for y = x W + b, given d_y [n, out].
[[nodiscard]] Matrix backward(const model::Linear& linear, const Matrix& d_y, Pool& pool);

/// Returns d_x for y = N(x), given d_y.
[[nodiscard]] Matrix backward(const model::NormConfig& config, const model::NormWeights& weights,
                              const Matrix& x, const Matrix& d_y);

/// Returns the derivative of the activation at each element of x. The derivative of relu at 0 is 0.
[[nodiscard]] Matrix derivative(model::Activation activation, const Matrix& x);

/// Returns d_x of run_mlp(), given d_output. The choice of the experts is constant; their weights are not.
[[nodiscard]] Matrix mlp_gradient(const model::LayerConfig& config, const model::LayerWeights& weights,
                                  const Matrix& x, const Matrix& d_output, Pool& pool);

struct ConvolutionGradient {
  Matrix d_embeddings, d_x;  // each [n, d]
};
/// Returns the derivatives for add_convolution(), given d_output. The layer must have a convolution.
[[nodiscard]] ConvolutionGradient convolution_gradient(const model::LayerConfig& config,
                                                       const model::LayerWeights& weights,
                                                       const Matrix& embeddings, const Matrix& x,
                                                       const Matrix& d_output);

struct AttentionGradient {
  Matrix d_queries, d_keys, d_values;  // the shapes of the members of AttentionInput
  std::vector<Matrix> d_z;             // [heads][n, v]
};
/// Returns the derivatives for attend(), given its result `pass` and d_output [n, d_out].
[[nodiscard]] AttentionGradient attention_gradient(const model::AttentionConfig& config,
                                                   const model::AttentionWeights& weights,
                                                   const AttentionInput& input, const ReferenceLayer& pass,
                                                   const Matrix& d_output, Pool& pool);

/// The results of a backward pass through a model.
struct PassGradient {
  ReferencePass pass;                                 // all layers, without logits
  std::vector<std::vector<OwnedMatrix<double>>> d_z;  // [layers][heads][n, v]
  Matrix d_embedded;  // [n, d], for the result of embed(); of the encoder if the model has a decoder
};
/// Returns the derivatives of a scalar function of the logits of some queries, in a model with an output
/// head. `d_logits` receives these logits [queries, vocabulary] and returns the derivatives of the scalar
/// with respect to them. Throws Error(bad_input) if a layer has no W_V.
[[nodiscard]] PassGradient pass_gradient(const model::Model& model, const input::Sequence& sequence,
                                         std::span<const std::size_t> queries,
                                         const std::function<Matrix(const Matrix& logits)>& d_logits,
                                         Pool& pool);

}  // namespace attnctl::reference

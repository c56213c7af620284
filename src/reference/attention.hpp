#pragma once

#include "base/pool.hpp"
#include "input/batch.hpp"
#include "linalg/matrix.hpp"
#include "model/model.hpp"
#include "reference/reference.hpp"

namespace attnctl::reference {

using linalg::Matrix;

/// The inputs of one layer's attention.
struct AttentionInput {
  const Sequence& sequence;  // of the keys: brings the masks
  const Matrix& queries;     // [n, d]
  const Matrix& keys;        // [m, kdim]
  const Matrix& values;      // [m, vdim]
};

/// Computes softmax(scale q k^T + positions + mask) v of all heads of a layer, and their output.
[[nodiscard]] ReferencePass::Layer attend(const AttentionConfig& config, const AttentionWeights& weights,
                                          const AttentionInput& input, Pool& pool);

/// Returns columns [index * width, (index + 1) * width): one head of a projection [n, heads * width].
[[nodiscard]] Matrix head_columns(const Matrix& projection, std::size_t index, std::size_t width);

enum class Turn { forward, back };

/// Rotates row i of one head [n, k] by position i, or back by the same angles. `length` is the number of
/// queries. Angles, cosines and sines are float32, as in the reference implementation, even in float64
/// models.
[[nodiscard]] Matrix rotate(const RotaryConfig& rotary, std::size_t length, const Matrix& x,
                            Turn turn = Turn::forward);

}  // namespace attnctl::reference

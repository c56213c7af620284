#pragma once

#include "base/matrix_view.hpp"
#include "model/model.hpp"

/// What gradients are given on their way back through the pieces of reference_math.hpp, in float64.
namespace attnctl::backward {

/// dL/dx [n, in] of y = x W + b from dL/dy [n, out].
[[nodiscard]] OwnedMatrix<double> through(const Linear& linear, MatrixView<const double> d_y);

/// dL/dx of a normalised row from dL/dy, at x.
[[nodiscard]] OwnedMatrix<double> through(const NormConfig& config, const NormWeights& weights,
                                          MatrixView<const double> x, MatrixView<const double> d_y);

/// The derivative of the activation at x; of relu at 0: 0.
[[nodiscard]] double slope(Activation activation, double x);

/// dL/dx of a turned head from dL/dy, in place: the transposed rotation.
void through_rotation(const RotaryConfig& rotary, std::size_t length, MatrixView<double> d_y);

/// dL/dscores from dL/dpattern, in place: a_ij (g_ij - sum_j a_ij g_ij).
void through_softmax(MatrixView<const double> pattern, MatrixView<double> d_pattern);

}  // namespace attnctl::backward

#pragma once

#include <span>

#include <xtensor/xmath.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>

#include "base/matrix_view.hpp"

// The mathematics of everything outside the hot path: xtensor expressions over float64, with the calls that
// are slow or wrong in xtensor and xtensor-blas replaced. Slow to compile: include it in sources, and only in
// headers that few sources include.
namespace attnctl::linalg {

using Matrix = xt::xtensor<double, 2>;  // row-major
using Vector = xt::xtensor<double, 1>;

[[nodiscard]] Matrix to_matrix(MatrixView<const float> values);
[[nodiscard]] Matrix to_matrix(MatrixView<const double> values);
[[nodiscard]] Vector to_vector(std::span<const float> values);
[[nodiscard]] OwnedMatrix<double> to_owned(const Matrix& values);

/// Returns the product a b of a [m, k] and b [k, n]. Transposes and views are copied on the way in:
/// xt::linalg::dot takes `dot(view(a), transpose(a))` for a a^T, whatever the shape of the view.
[[nodiscard]] Matrix dot(const Matrix& a, const Matrix& b);

// Reductions of each row, [n, m] to [n, 1]. They are computed at once: a lazy reduction inside an expression
// is computed again for every element.
[[nodiscard]] Matrix row_sum(const Matrix& values);
[[nodiscard]] Matrix row_mean(const Matrix& values);
[[nodiscard]] Matrix row_max(const Matrix& values);

}  // namespace attnctl::linalg

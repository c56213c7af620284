#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <xtensor/xmath.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>

#include "base/matrix_view.hpp"

// Float64 matrices for all code that need not be fast, based on xtensor. dot() and the reductions below
// replace functions of xtensor and xtensor-blas that are slow or wrong. This header is slow to compile:
// include it in source files, and in a header only if few sources include that header.
namespace attnctl::linalg {

using Matrix = xt::xtensor<double, 2>;  // row-major
using Vector = xt::xtensor<double, 1>;

template <typename T>
[[nodiscard]] Matrix to_matrix(MatrixView<T> values) {
  Matrix copy = Matrix::from_shape({values.rows, values.cols});
  for (std::size_t r = 0; r < values.rows; ++r)
    std::ranges::copy(values.row(r), copy.data() + r * values.cols);
  return copy;
}
[[nodiscard]] Vector to_vector(std::span<const float> values);
[[nodiscard]] OwnedMatrix<double> to_owned(const Matrix& values);

/// Returns the product a b of a [m, k] and b [k, n]. The parameters have the type Matrix, so that transposes
/// and views are copied first: xt::linalg::dot would compute `dot(view(a), transpose(a))` as a a^T, even if
/// the view is only a part of a.
[[nodiscard]] Matrix dot(const Matrix& a, const Matrix& b);

// Reductions of each row: [n, m] to [n, 1]. They are evaluated immediately, because xtensor evaluates a lazy
// reduction inside an expression again for every element.
[[nodiscard]] Matrix row_sum(const Matrix& values);
[[nodiscard]] Matrix row_mean(const Matrix& values);
[[nodiscard]] Matrix row_max(const Matrix& values);

}  // namespace attnctl::linalg

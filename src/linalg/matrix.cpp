#include "linalg/matrix.hpp"

#include <algorithm>

#include "linalg/gemm.hpp"

namespace attnctl::linalg {
namespace {

MatrixView<const double> view_of(const Matrix& values) {
  return {values.data(), values.shape(0), values.shape(1)};
}

template <typename T>
Matrix copy_of(MatrixView<const T> values) {
  Matrix copy = Matrix::from_shape({values.rows, values.cols});
  for (std::size_t r = 0; r < values.rows; ++r) {
    const auto row = values.row(r);
    std::copy(row.begin(), row.end(), copy.data() + r * values.cols);
  }
  return copy;
}

}  // namespace

Matrix to_matrix(MatrixView<const float> values) {
  return copy_of(values);
}

Matrix to_matrix(MatrixView<const double> values) {
  return copy_of(values);
}

Vector to_vector(std::span<const float> values) {
  Vector copy = Vector::from_shape({values.size()});
  std::copy(values.begin(), values.end(), copy.begin());
  return copy;
}

OwnedMatrix<double> to_owned(const Matrix& values) {
  OwnedMatrix<double> copy(values.shape(0), values.shape(1));
  std::copy(values.begin(), values.end(), copy.values().begin());
  return copy;
}

Matrix dot(const Matrix& a, const Matrix& b) {
  Matrix product = Matrix::from_shape({a.shape(0), b.shape(1)});
  gemm_nn(view_of(a), view_of(b), MatrixView<double>(product.data(), product.shape(0), product.shape(1)));
  return product;
}

Matrix row_sum(const Matrix& values) {
  return xt::sum(values, {1}, xt::keep_dims);
}

Matrix row_mean(const Matrix& values) {
  return xt::mean(values, {1}, xt::keep_dims);
}

Matrix row_max(const Matrix& values) {
  return xt::amax(values, {1}, xt::keep_dims);
}

}  // namespace attnctl::linalg

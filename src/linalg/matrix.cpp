#include "linalg/matrix.hpp"

#include "linalg/gemm.hpp"

namespace attnctl::linalg {

static MatrixView<const double> view_of(const Matrix& values) {
  return {values.data(), values.shape(0), values.shape(1)};
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

#pragma once

#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "attnctl/matrix_view.hpp"
#include "base/numbers.hpp"

namespace attnctl {

using attn::MatrixView;

/// A packed row-major matrix [rows, cols] that owns its elements. New elements are 0.
template <typename T>
class OwnedMatrix {
 public:
  OwnedMatrix() = default;
  OwnedMatrix(std::size_t rows, std::size_t cols) : rows_(rows), cols_(cols), values_(rows * cols) {}

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }
  [[nodiscard]] MatrixView<T> view() { return {values_.data(), rows_, cols_}; }
  [[nodiscard]] MatrixView<const T> view() const { return {values_.data(), rows_, cols_}; }
  [[nodiscard]] std::span<T> values() { return values_; }
  [[nodiscard]] std::span<const T> values() const { return values_; }
  [[nodiscard]] T& operator()(std::size_t r, std::size_t c) { return values_[r * cols_ + c]; }
  [[nodiscard]] const T& operator()(std::size_t r, std::size_t c) const { return values_[r * cols_ + c]; }

 private:
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
  std::vector<T> values_;
};

[[nodiscard]] inline OwnedMatrix<double> identity(std::size_t n) {
  OwnedMatrix<double> matrix(n, n);
  for (std::size_t i = 0; i < n; ++i) matrix(i, i) = 1;
  return matrix;
}

/// Returns a matrix with independent normal entries of mean 0 and standard deviation `deviation`.
[[nodiscard]] inline OwnedMatrix<double> random_matrix(std::size_t rows, std::size_t cols, double deviation,
                                                       Random& random) {
  OwnedMatrix<double> matrix(rows, cols);
  for (double& value : matrix.values()) value = deviation * random.normal();
  return matrix;
}

/// Returns the dot product, summed from the first element to the last.
[[nodiscard]] inline double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

[[nodiscard]] inline double norm(std::span<const double> values) {
  return std::sqrt(dot(values, values));
}

}  // namespace attnctl

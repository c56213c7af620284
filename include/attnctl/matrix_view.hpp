#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace attn {

/// A view of a row-major matrix [rows, cols]. Row r begins at data + r * stride.
template <typename T>
struct MatrixView {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t stride = 0;  // distance between the starts of consecutive rows, in elements; at least cols

  MatrixView() = default;
  MatrixView(T* first, std::size_t row_count, std::size_t col_count, std::size_t row_stride)
      : data(first), rows(row_count), cols(col_count), stride(row_stride) {}
  MatrixView(T* first, std::size_t row_count, std::size_t col_count)
      : MatrixView(first, row_count, col_count, col_count) {}
  template <typename U>
  requires(std::is_same_v<T, const U>)
      MatrixView(const MatrixView<U>& other)  // NOLINT(google-explicit-constructor): like T* to const T*
      : MatrixView(other.data, other.rows, other.cols, other.stride) {}

  [[nodiscard]] bool empty() const { return rows == 0 || cols == 0; }
  [[nodiscard]] std::span<T> row(std::size_t r) const { return {data + r * stride, cols}; }
  [[nodiscard]] T& operator()(std::size_t r, std::size_t c) const { return data[r * stride + c]; }
  [[nodiscard]] MatrixView row_range(std::size_t first, std::size_t count) const {
    return {data + first * stride, count, cols, stride};
  }
  [[nodiscard]] MatrixView col_range(std::size_t first, std::size_t count) const {
    return {data + first, rows, count, stride};
  }
};

}  // namespace attn

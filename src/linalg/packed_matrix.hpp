#pragma once

#include <cstddef>
#include <memory>

#include "base/matrix_view.hpp"

namespace attnctl {

/// The right side of many products with few rows each, [k, n], laid out once as the kernels of this CPU read
/// it. An element's value depends on the inner extent and the CPU alone, never on which rows and columns are
/// asked for together.
class PackedMatrix {
 public:
  PackedMatrix();
  ~PackedMatrix();
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;

  /// Takes over b [k, n]; memory grows and is never given back.
  void pack(MatrixView<const float> b);
  /// Takes over b^T, b [n, k].
  void pack_transposed(MatrixView<const float> b);

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }

  /// c = alpha a B(first_row : first_row + k', first_col : first_col + n'); a [m, k'], c [m, n']. Throws
  /// std::logic_error where that is not inside of B.
  void multiply(MatrixView<const float> a, std::size_t first_row, std::size_t first_col, MatrixView<float> c,
                float alpha = 1) const;

 private:
  struct Room;
  float* open(std::size_t rows, std::size_t cols);

  std::unique_ptr<Room> room_;
  std::size_t rows_ = 0, cols_ = 0;
};

}  // namespace attnctl

#include "linalg/packed_matrix.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "base/checked.hpp"
#include "linalg/aligned_room.hpp"
#include "linalg/kernels/gemm_kernels.hpp"

namespace attnctl {

struct PackedMatrix::Room : linalg::AlignedRoom {};

PackedMatrix::PackedMatrix() : room_(std::make_unique<Room>()) {}
PackedMatrix::~PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;

float* PackedMatrix::open(std::size_t rows, std::size_t cols) {
  const std::size_t width = linalg::gemm_kernels().panel_cols;
  const auto size = checked_mul((cols + width - 1) / width * width, rows);
  if (!size) throw std::bad_alloc();
  float* const data = room_->take(*size);
  rows_ = rows;
  cols_ = cols;
  return data;
}

void PackedMatrix::pack(MatrixView<const float> b) {
  const linalg::GemmKernels& own = linalg::gemm_kernels();
  float* to = open(b.rows, b.cols);
  for (std::size_t first = 0; first < b.cols; first += own.panel_cols, to += own.panel_cols * b.rows)
    own.lay_out(b.data + first, b.stride, b.rows, std::min(own.panel_cols, b.cols - first), to);
}

void PackedMatrix::pack_transposed(MatrixView<const float> b) {
  const linalg::GemmKernels& own = linalg::gemm_kernels();
  float* to = open(b.cols, b.rows);
  for (std::size_t first = 0; first < b.rows; first += own.panel_cols, to += own.panel_cols * b.cols) {
    own.lay_out_transposed(b.data + first * b.stride, b.stride, b.cols,
                           std::min(own.panel_cols, b.rows - first), to);
  }
}

void PackedMatrix::multiply(MatrixView<const float> a, std::size_t first_row, std::size_t first_col,
                            MatrixView<float> c, float alpha) const {
  const bool inside =
      first_row <= rows_ && a.cols <= rows_ - first_row && first_col <= cols_ && c.cols <= cols_ - first_col;
  if (!inside || a.rows != c.rows) throw std::logic_error("the shapes of a packed product do not fit");
  const linalg::GemmKernels& own = linalg::gemm_kernels();
  if (a.cols == 0) {
    for (std::size_t r = 0; r < c.rows; ++r) std::ranges::fill(c.row(r), 0.0F);
    return;
  }
  const std::size_t panel = rows_ * own.panel_cols;
  own.panels({c.rows, c.cols, a.cols, a.data, a.stride, room_->get() + first_row * own.panel_cols, panel,
              c.data, c.stride, alpha, false},
             first_col);
}

}  // namespace attnctl

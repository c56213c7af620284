#include "attnctl/linalg/packed_matrix.hpp"

#include "attnctl/base/checked.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "linalg/aligned_room.hpp"
#include "linalg/gemm_kernels.hpp"

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
  const std::size_t width = linalg::gemm_kernels().panel_cols;
  float* to = open(b.rows, b.cols);
  for (std::size_t first = 0; first < b.cols; first += width) {
    const std::size_t count = std::min(width, b.cols - first);
    for (std::size_t p = 0; p < b.rows; ++p, to += width) {
      std::fill(std::copy_n(b.row(p).data() + first, count, to), to + width, 0.0F);
    }
  }
}

void PackedMatrix::pack_transposed(MatrixView<const float> b) {
  const std::size_t width = linalg::gemm_kernels().panel_cols;
  float* to = open(b.cols, b.rows);
  for (std::size_t first = 0; first < b.rows; first += width, to += width * b.cols) {
    const std::size_t count = std::min(width, b.rows - first);
    for (std::size_t p = 0; p < b.cols; ++p) {
      float* const row = to + p * width;
      for (std::size_t j = 0; j < count; ++j) row[j] = b.data[(first + j) * b.stride + p];
      std::fill(row + count, row + width, 0.0F);
    }
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

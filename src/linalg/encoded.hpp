#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/matrix_view.hpp"

namespace attnctl::linalg {

/// How a file stores numbers that are not float32: one by one with fewer bits, or in blocks of small integers
/// that share scales. The blocks are those of ggml (ggml-quants.c).
enum class NumberEncoding : std::uint8_t { f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k, mxfp4 };
inline constexpr std::size_t kEncodings = 11;

struct EncodingBlock {
  std::size_t values = 1;  // numbers in a block
  std::size_t bytes = 0;
};
[[nodiscard]] constexpr EncodingBlock block_size(NumberEncoding encoding) {
  constexpr std::array<EncodingBlock, kEncodings> sizes = {{{1, 2},
                                                            {1, 2},
                                                            {32, 18},
                                                            {32, 20},
                                                            {32, 22},
                                                            {32, 24},
                                                            {32, 34},
                                                            {256, 144},
                                                            {256, 176},
                                                            {256, 210},
                                                            {32, 17}}};
  return sizes.at(static_cast<std::size_t>(encoding));
}

/// Decodes `count` blocks from `blocks`, which may have any alignment, to `values`. Every product and sum is
/// rounded to float32, in the same order as in ggml.
using Decode = void (*)(const std::byte* blocks, std::size_t count, float* values);
/// Decodes `count` blocks of each of as many rows as a vector has lanes. Writes value i of all rows to to[i *
/// stride]; `to` and `stride` are aligned to a vector.
using DecodeColumns = void (*)(const std::byte* const* rows, std::size_t count, float* to,
                               std::size_t stride);
/// The functions for one encoding. All functions for all CPUs give the same bits, except in NaN.
struct Decoders {
  Decode rows = nullptr;
  DecodeColumns columns = nullptr;  // null if it is not faster than `rows` and transposing
};
/// Returns the fastest functions for this CPU.
[[nodiscard]] Decoders decoders(NumberEncoding encoding);

/// A view of a matrix [rows, cols] whose numbers stay as a file stores them. A product decodes them when it
/// needs them (multiply_encoded). A row is stored as consecutive blocks.
struct EncodedMatrix {
  const std::byte* data = nullptr;  // stored row 0
  NumberEncoding encoding = NumberEncoding::f16;
  std::size_t rows = 0, cols = 0;
  std::size_t stride = 0;  // bytes from a stored row to the next
  /// If not 0, the rows of each head, h = head_rows rows, are stored in the order 0, h/2, 1, h/2 + 1, ...
  std::size_t head_rows = 0;
  std::size_t first_row = 0;  // row 0 is row `first_row` of the stored matrix

  [[nodiscard]] bool present() const { return data != nullptr; }
  /// Returns the first block of a row.
  [[nodiscard]] const std::byte* row(std::size_t r) const {
    std::size_t stored = first_row + r;
    if (head_rows > 0) {
      const std::size_t offset = stored % head_rows;
      stored += 2 * (offset % (head_rows / 2)) + offset / (head_rows / 2) - offset;
    }
    return data + stored * stride;
  }
  /// Returns the rows [first, first + count).
  [[nodiscard]] EncodedMatrix row_range(std::size_t first, std::size_t count) const;
  /// Returns the columns [first, first + count). Throws std::logic_error if `first` is inside of a block.
  [[nodiscard]] EncodedMatrix col_range(std::size_t first, std::size_t count) const;
  /// Writes row r to out [cols]. `cols` must be a whole number of blocks.
  void decode_row(std::size_t r, std::span<float> out) const;
};

/// Computes c = a b, or c = a b^T if `transpose_b` is true, on one thread. Adds the old c if `accumulate` is
/// true, and `bias` [n], which may be empty, to every row. a is [m, k]; b is [k, n], or [n, k] if it is
/// transposed; c is [m, n]. Decodes b in panels that fit into the cache. Throws std::logic_error if the
/// shapes do not match, if the rows of b are not whole blocks, or if b is not transposed and its blocks have
/// several values.
void multiply_encoded(bool transpose_b, MatrixView<const float> a, const EncodedMatrix& b,
                      std::span<const float> bias, MatrixView<float> c, bool accumulate);

}  // namespace attnctl::linalg

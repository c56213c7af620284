#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/dtype.hpp"

// The header of NPY arrays (numpy.lib.format, versions 1 to 3).

namespace attnctl {

struct NpyHeader {
  DType dtype = DType::f32;
  bool big_endian = false;
  bool fortran = false;  // column-major
  Shape shape;
  std::size_t data_begin = 0;  // offset of the elements
  std::size_t data_size = 0;   // number of bytes of all elements, from shape and dtype

  /// Returns true if the elements are stored in row-major, little-endian order.
  [[nodiscard]] bool is_plain() const;
};

/// The number of bytes that npy_header_end() needs.
constexpr std::size_t kNpyPreamble = 12;

/// Returns the end of the header, given the first bytes of an array. `where` names the file and the member in
/// errors. Throws Error(bad_input).
[[nodiscard]] std::size_t npy_header_end(std::string_view where, std::string_view first);

/// Reads the header `text`, which ends at npy_header_end(). Accepts a fixed grammar and evaluates nothing.
/// Throws Error(bad_input).
[[nodiscard]] NpyHeader read_npy_header(std::string_view where, std::string_view text);

/// Throws Error(bad_input) unless `size` is the number of data bytes that the header requires.
void check_npy_size(std::string_view where, const NpyHeader& header, std::size_t size);

/// Returns a little-endian, row-major header of version 1.0, padded so that the data begin at a multiple
/// of 64.
[[nodiscard]] std::string npy_header(DType dtype, const Shape& shape);

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/dtype.hpp"

// The header of NPY arrays (numpy.lib.format, versions 1 to 3).

namespace attnctl::formats {

struct NpyHeader {
  DType dtype = DType::f32;
  bool big_endian = false;
  bool fortran = false;  // column-major
  Shape shape;
  std::size_t data_begin = 0;  // offset of the elements, in bytes
  std::size_t data_size = 0;   // size of all elements, in bytes

  /// Returns true if the elements are stored in row-major, little-endian order.
  [[nodiscard]] bool is_plain() const;
};

constexpr std::size_t kNpyPreamble = 12;  // number of bytes that npy_header_end() needs

/// Returns the offset of the end of the header. `first` has at least the first kNpyPreamble bytes of the
/// array, or the whole array if it is shorter. `where` names the file and the member in error messages.
/// Throws Error(bad_input).
[[nodiscard]] std::size_t npy_header_end(std::string_view where, std::string_view first);

/// Reads the header `text`, whose length is npy_header_end(). Accepts only a fixed grammar and never
/// evaluates the text as Python. Throws Error(bad_input).
[[nodiscard]] NpyHeader read_npy_header(std::string_view where, std::string_view text);

/// Throws Error(bad_input) if `size`, the number of bytes after the header, is not header.data_size.
void check_npy_size(std::string_view where, const NpyHeader& header, std::size_t size);

/// Returns a header of version 1.0 for little-endian, row-major data. The header is padded to a multiple of
/// 64 bytes.
[[nodiscard]] std::string npy_header(DType dtype, const Shape& shape);

}  // namespace attnctl::formats

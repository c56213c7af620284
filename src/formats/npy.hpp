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
  /// True for an array of strings. The last axis then has the characters of a string, filled up with zeros:
  /// code points (dtype U, u32) or bytes (dtype S, u8).
  bool text = false;
  Shape shape;
  std::size_t data_begin = 0;  // offset of the elements from the beginning of the header, in bytes

  /// Returns true if the elements are stored in row-major, little-endian order.
  [[nodiscard]] bool is_plain() const;
};

constexpr std::size_t kNpyPreamble = 12;  // npy_header_end() reads at most this number of bytes

/// Returns the offset of the end of the header, which may be larger than the array if the array is cut.
/// `first` has at least the first kNpyPreamble bytes of the array, or the whole array if it is shorter. Error
/// messages begin with `where`, the name of the file or of an archive member. Throws Error(bad_input).
[[nodiscard]] std::size_t npy_header_end(std::string_view where, std::string_view first);

/// Parses the header `text`, the first npy_header_end() bytes of the array. Accepts only a fixed grammar and
/// never evaluates the text as Python. Throws Error(bad_input), also if `data_size`, the number of bytes
/// after the header, is not the size of the elements. Arrays of strings are an error unless `strings` is
/// true.
[[nodiscard]] NpyHeader read_npy_header(std::string_view where, std::string_view text, std::size_t data_size,
                                        bool strings = false);

/// Returns a header of version 1.0 for little-endian, row-major data. The header is padded to a multiple of
/// 64 bytes. Throws std::invalid_argument for bf16, which NumPy lacks.
[[nodiscard]] std::string npy_header(DType dtype, const Shape& shape);

}  // namespace attnctl::formats

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/files/file_bytes.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl {

/// The header of an NPY array (numpy.lib.format, versions 1 to 3).
struct NpyHeader {
  DType dtype = DType::f32;
  bool big_endian = false;
  bool fortran = false;  // the first index runs fastest
  Shape shape;
  std::size_t data_begin = 0;  // offset of the elements
  std::size_t data_size = 0;   // bytes according to shape and dtype
};

/// Number of bytes that npy_header_end needs.
constexpr std::size_t kNpyPreamble = 12;

/// Returns the end of the header, from the first bytes of an array. `where` is the file and member, for
/// messages. Throws Error(bad_input).
[[nodiscard]] std::size_t npy_header_end(std::string_view where, std::string_view first);

/// Reads a header from the text up to npy_header_end, with a fixed grammar; nothing is evaluated. Throws
/// Error(bad_input).
[[nodiscard]] NpyHeader read_npy_header(std::string_view where, std::string_view text);

/// Throws Error(bad_input) if the data is shorter or longer than the header says.
void check_npy_size(std::string_view where, const NpyHeader& header, std::size_t size);

/// Returns true if the elements are row-major and little-endian, as in a TensorView.
[[nodiscard]] bool is_plain(const NpyHeader& header);

/// Copies the elements to row-major little-endian order.
[[nodiscard]] std::vector<std::byte> to_plain(const NpyHeader& header, std::span<const std::byte> data);

/// Opens one array as a tensor with this name.
[[nodiscard]] std::unique_ptr<Checkpoint> open_npy(FileBytes file, std::string name);

/// Opens an archive of arrays. Tensor names are member names without ".npy". Other members add the warning
/// "ignored_member".
[[nodiscard]] std::unique_ptr<Checkpoint> open_npz(FileBytes file, Warnings& warnings);

}  // namespace attnctl

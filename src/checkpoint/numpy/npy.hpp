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

/// What the header of an NPY array says (numpy.lib.format, versions 1 to 3).
struct NpyHeader {
  DType dtype = DType::f32;
  bool big_endian = false;
  bool fortran = false;  // the first index runs fastest
  Shape shape;
  std::size_t data_begin = 0;  // offset of the elements
  std::size_t data_size = 0;   // bytes that shape and dtype need
};

/// Bytes that suffice for npy_header_end.
constexpr std::size_t kNpyPreamble = 12;

/// Where the header ends, from the first bytes of an array. `where` is the file and member, for errors.
/// Throws Error(bad_input).
[[nodiscard]] std::size_t npy_header_end(std::string_view where, std::string_view first);

/// Reads a header: `text` is everything up to npy_header_end. A fixed grammar, nothing is evaluated. Throws
/// Error(bad_input).
[[nodiscard]] NpyHeader read_npy_header(std::string_view where, std::string_view text);

/// Refuses data that is shorter or longer than the header says.
void check_npy_size(std::string_view where, const NpyHeader& header, std::size_t size);

/// Whether the elements lie as a TensorView has them: row-major, little-endian.
[[nodiscard]] bool is_plain(const NpyHeader& header);

/// The elements, row-major and little-endian.
[[nodiscard]] std::vector<std::byte> to_plain(const NpyHeader& header, std::span<const std::byte> data);

/// One array; the tensor is called `name`.
[[nodiscard]] std::unique_ptr<Checkpoint> open_npy(FileBytes file, std::string name);

/// An archive of arrays: tensors are called as its members without ".npy". Other members are counted in the
/// warning "ignored_member".
[[nodiscard]] std::unique_ptr<Checkpoint> open_npz(FileBytes file, Warnings& warnings);

}  // namespace attnctl

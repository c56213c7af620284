#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"

namespace attnctl {

/// Elements of a tensor within a run of bytes. The element at index i is at offset + sum of i[d] *
/// strides[d], counted in elements.
struct Strided {
  Shape shape;
  Shape strides;           // in elements
  std::size_t offset = 0;  // in elements
  std::size_t element_size = 1;
};

/// Throws Error(bad_input) if elements exceed the `available` bytes, or if the size does not fit 64 bits.
/// `where` is the file and tensor, for the message. The other functions expect a checked tensor.
void check_strided(std::string_view where, const Strided& tensor, std::size_t available);

/// Returns the bytes of all elements.
[[nodiscard]] std::size_t byte_size(const Strided& tensor);

/// Returns true if the elements are contiguous with the last index running fastest.
[[nodiscard]] bool is_row_major(const Strided& tensor);

/// Copies the elements in row-major order. `swap` reverses the bytes of each element.
[[nodiscard]] std::vector<std::byte> to_row_major(const Strided& tensor, std::span<const std::byte> bytes,
                                                  bool swap);

}  // namespace attnctl

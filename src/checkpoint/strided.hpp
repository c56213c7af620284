#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"

namespace attnctl {

/// The layout of a tensor's elements in a buffer. The element with the indices i[0], i[1], ... is at the
/// position offset + the sum of i[d] * strides[d] over all dimensions d, counted in elements.
struct Strided {
  Shape shape;
  Shape strides;                 // in elements
  std::size_t offset = 0;        // in elements
  std::size_t element_size = 1;  // in bytes
};

/// Throws Error(bad_input) if an element is outside of the `available` bytes of the buffer, or if the
/// tensor's size in bytes does not fit 64 bits. `where` names the file and the tensor in the message. The
/// functions below require a tensor that passed this check.
void check_strided(std::string_view where, const Strided& tensor, std::size_t available);

/// Returns the size of all elements together, in bytes.
[[nodiscard]] std::size_t byte_size(const Strided& tensor);

/// Returns true if the elements are contiguous and in row-major order.
[[nodiscard]] bool is_row_major(const Strided& tensor);

/// Returns a copy of the elements in row-major order. `bytes` is the buffer. If `swap` is true, reverses the
/// bytes of each element.
[[nodiscard]] std::vector<std::byte> to_row_major(const Strided& tensor, std::span<const std::byte> bytes,
                                                  bool swap);

}  // namespace attnctl

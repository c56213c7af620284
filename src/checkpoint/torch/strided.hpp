#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"

namespace attnctl {

/// Elements of a tensor in a run of bytes: the one at index i is offset + sum of i[d] * strides[d] elements
/// from its beginning.
struct Strided {
  Shape shape;
  Shape strides;           // elements
  std::size_t offset = 0;  // elements
  std::size_t element_size = 1;
};

/// Refuses what does not lie within `available` bytes, or whose size does not fit 64 bits. `where` is the
/// file and tensor, for errors. The other functions expect that it was checked. Throws Error(bad_input).
void check_strided(std::string_view where, const Strided& tensor, std::size_t available);

/// Bytes of all elements, each counted once.
[[nodiscard]] std::size_t byte_size(const Strided& tensor);

/// Whether the elements lie one behind the other, the last index running fastest.
[[nodiscard]] bool is_row_major(const Strided& tensor);

/// The elements of `bytes` in row-major order; `swap` turns the bytes of each around.
[[nodiscard]] std::vector<std::byte> to_row_major(const Strided& tensor, std::span<const std::byte> bytes,
                                                  bool swap);

}  // namespace attnctl

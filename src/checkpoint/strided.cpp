#include <algorithm>
#include <cstring>
#include <optional>

#include "base/checked.hpp"
#include "checkpoint/readers.hpp"

namespace attnctl::checkpoint {

void check_strided(std::string_view where, const Strided& tensor, std::size_t available) {
  if (tensor.strides.size() != tensor.shape.size()) {
    refuse(where, "strides: got {}, need one per extent of the shape {}", to_string(tensor.strides),
           to_string(tensor.shape));
  }
  const auto count = checked_product(tensor.shape);
  if (!count || !checked_mul(*count, tensor.element_size))
    refuse(where, "shape: got {}, whose size does not fit 64 bits", to_string(tensor.shape));
  if (*count == 0) return;
  // One position after the last element.
  std::optional<std::size_t> end = checked_add(tensor.offset, std::size_t{1});
  for (std::size_t d = 0; d < tensor.shape.size() && end; ++d) {
    const auto distance = checked_mul(tensor.shape[d] - 1, tensor.strides[d]);
    end = distance ? checked_add(*end, *distance) : std::nullopt;
  }
  if (end) end = checked_mul(*end, tensor.element_size);
  if (!end || *end > available) {
    refuse(where, "got shape {} with strides {} at offset {}, which exceeds the {} bytes of its storage",
           to_string(tensor.shape), to_string(tensor.strides), tensor.offset, available);
  }
}

std::size_t byte_size(const Strided& tensor) {
  return checked_product(tensor.shape).value() * tensor.element_size;
}

bool is_row_major(const Strided& tensor) {
  if (byte_size(tensor) == 0) return true;
  std::size_t stride = 1;
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return false;
    stride *= tensor.shape[d];
  }
  return true;
}

std::vector<std::byte> to_row_major(const Strided& tensor, std::span<const std::byte> bytes, bool swap) {
  std::vector<std::byte> out(byte_size(tensor));
  const std::size_t size = tensor.element_size;
  Shape index(tensor.shape.size(), 0);
  std::size_t from = tensor.offset;
  for (std::size_t to = 0; to < out.size(); to += size) {
    const std::span<std::byte> element = std::span(out).subspan(to, size);
    std::memcpy(element.data(), bytes.data() + from * size, size);
    if (swap) std::ranges::reverse(element);
    // Advance to the next element. After the last element, `from` is not used again.
    for (std::size_t d = index.size(); d-- > 0;) {
      from += tensor.strides[d];
      if (++index[d] < tensor.shape[d]) break;
      from -= tensor.strides[d] * tensor.shape[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace attnctl::checkpoint

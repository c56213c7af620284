#include "checkpoint/torch/strided.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/checked.hpp"
#include "base/error.hpp"

namespace attnctl {

void check_strided(std::string_view where, const Strided& tensor, std::size_t available) {
  if (tensor.strides.size() != tensor.shape.size()) {
    fail(Status::bad_input, "{}: strides: got {}, need as many as the shape {} has", where,
         to_string(tensor.strides), to_string(tensor.shape));
  }
  const auto count = checked_product(tensor.shape);
  if (!count || !checked_mul(*count, tensor.element_size)) {
    fail(Status::bad_input, "{}: shape: got {}, whose size does not fit 64 bits", where,
         to_string(tensor.shape));
  }
  if (*count == 0) return;
  std::optional<std::size_t> end = checked_add(tensor.offset, std::size_t{1});  // behind the last element
  for (std::size_t d = 0; d < tensor.shape.size() && end; ++d) {
    const auto way = checked_mul(tensor.shape[d] - 1, tensor.strides[d]);
    end = way ? checked_add(*end, *way) : std::nullopt;
  }
  if (end) end = checked_mul(*end, tensor.element_size);
  if (!end || *end > available) {
    fail(Status::bad_input,
         "{}: got shape {} with strides {} at {}, which leads behind the {} bytes of its storage", where,
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
  std::vector<std::size_t> index(tensor.shape.size(), 0);
  const std::size_t size = tensor.element_size;
  std::size_t from = tensor.offset;
  for (std::size_t to = 0; to < out.size(); to += size) {
    const auto element = bytes.subspan(from * size, size);
    const auto target = std::next(out.begin(), static_cast<std::ptrdiff_t>(to));
    if (swap) {
      std::reverse_copy(element.begin(), element.end(), target);
    } else {
      std::copy(element.begin(), element.end(), target);
    }
    // The next index, its last part running fastest. Past the very last one `from` is not used any more.
    for (std::size_t d = tensor.shape.size(); d-- > 0;) {
      from += tensor.strides[d];
      if (++index[d] < tensor.shape[d]) break;
      from -= tensor.strides[d] * tensor.shape[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace attnctl

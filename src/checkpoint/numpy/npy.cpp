#include "checkpoint/numpy/npy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace attnctl {
namespace {

template <typename Element>
Element swapped(Element element) {
  if constexpr (sizeof(Element) == 2) return __builtin_bswap16(element);
  if constexpr (sizeof(Element) == 4) return __builtin_bswap32(element);
  if constexpr (sizeof(Element) == 8) return __builtin_bswap64(element);
  return element;
}

/// Bytes between neighbours along each axis of `shape` in the stored order, in elements.
std::vector<std::size_t> strides_of(const NpyHeader& header) {
  const std::size_t rank = header.shape.size();
  std::vector<std::size_t> strides(rank, 1);
  std::size_t stride = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t axis = header.fortran ? i : rank - 1 - i;
    strides[axis] = stride;
    stride *= header.shape[axis];
  }
  return strides;
}

/// Walks the elements in row-major order.
template <typename Element>
void gather(const NpyHeader& header, const std::byte* in, std::byte* out) {
  const std::vector<std::size_t> strides = strides_of(header);
  std::vector<std::size_t> index(header.shape.size(), 0);
  const std::size_t count = header.data_size / sizeof(Element);
  std::size_t from = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Element element;
    std::memcpy(&element, in + from * sizeof(Element), sizeof(Element));
    if (header.big_endian) element = swapped(element);
    std::memcpy(out + i * sizeof(Element), &element, sizeof(Element));
    for (std::size_t axis = index.size(); axis-- > 0;) {
      from += strides[axis];
      if (++index[axis] < header.shape[axis]) break;
      from -= strides[axis] * header.shape[axis];
      index[axis] = 0;
    }
  }
}

class NpyFile final : public Checkpoint {
 public:
  NpyFile(FileBytes file, std::string name, NpyHeader header)
      : file_(std::move(file)), header_(std::move(header)) {
    info_ = {std::move(name), header_.dtype, header_.shape, file_.name()};
    data_ = file_.bytes().subspan(header_.data_begin);
  }

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return {&info_, 1}; }

  [[nodiscard]] TensorView tensor(std::size_t /*index*/) override {
    if (header_.is_plain()) return {info_.dtype, info_.shape, data_};
    if (plain_.size() != data_.size()) plain_ = to_plain(header_, data_);
    return {info_.dtype, info_.shape, plain_};
  }

  void release(std::size_t /*index*/) override {
    file_.forget(data_);
    std::vector<std::byte>().swap(plain_);
  }

  void forget(std::size_t /*index*/, std::span<const std::byte> part) override {
    if (header_.is_plain()) file_.forget(part);
  }

  [[nodiscard]] std::uint64_t copied_bytes(std::size_t /*index*/) const override {
    return header_.is_plain() ? 0 : 2 * std::uint64_t{data_.size()};
  }

 private:
  FileBytes file_;
  NpyHeader header_;
  TensorInfo info_;
  std::span<const std::byte> data_;
  std::vector<std::byte> plain_;
};

}  // namespace

std::vector<std::byte> to_plain(const NpyHeader& header, std::span<const std::byte> data) {
  std::vector<std::byte> plain(header.data_size);
  if (plain.empty()) return plain;
  switch (size_of(header.dtype)) {
    case 1:
      gather<std::uint8_t>(header, data.data(), plain.data());
      break;
    case 2:
      gather<std::uint16_t>(header, data.data(), plain.data());
      break;
    case 4:
      gather<std::uint32_t>(header, data.data(), plain.data());
      break;
    default:
      gather<std::uint64_t>(header, data.data(), plain.data());
      break;
  }
  return plain;
}

std::unique_ptr<Checkpoint> open_npy(FileBytes file, std::string name) {
  const std::string_view text = file.text();
  const std::size_t end = npy_header_end(file.name(), text.substr(0, kNpyPreamble));
  if (end > text.size()) {
    fail(Status::bad_input, "{}: got a header of {} bytes in a file of {}; was it downloaded whole?",
         file.name(), end, text.size());
  }
  NpyHeader header = read_npy_header(file.name(), text.substr(0, end));
  check_npy_size(file.name(), header, text.size() - end);
  return std::make_unique<NpyFile>(std::move(file), std::move(name), std::move(header));
}

}  // namespace attnctl

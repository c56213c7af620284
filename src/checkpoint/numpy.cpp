#include <cstring>

#include "base/numbers.hpp"
#include "checkpoint/readers.hpp"
#include "formats/npy.hpp"
#include "formats/zip.hpp"

namespace attnctl::checkpoint {

void check_strided(std::string_view where, const Strided& tensor, std::size_t available) {
  if (tensor.strides.size() != tensor.shape.size()) {
    refuse(where, "strides: got {}, need one per extent of the shape {}", to_string(tensor.strides),
           to_string(tensor.shape));
  }
  const auto size = checked_product(tensor.shape, tensor.element_size);
  if (!size) refuse(where, "shape: got {}, whose size does not fit 64 bits", to_string(tensor.shape));
  if (*size == 0) return;
  // The position after the last element, in elements.
  std::optional<std::size_t> end = checked_add(tensor.offset, std::size_t{1});
  for (std::size_t d = 0; d < tensor.shape.size() && end; ++d) {
    const auto distance = checked_mul(tensor.shape[d] - 1, tensor.strides[d]);
    end = distance ? checked_add(*end, *distance) : std::nullopt;
  }
  if (end) end = checked_mul(*end, tensor.element_size);
  if (!end || *end > available) {
    refuse(where,
           "got shape {} with strides {} at offset {} (in elements of {} bytes), which exceeds the {} bytes "
           "of its storage",
           to_string(tensor.shape), to_string(tensor.strides), tensor.offset, tensor.element_size, available);
  }
}

std::size_t byte_size(const Strided& tensor) {
  return checked_product(tensor.shape, tensor.element_size).value();
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

namespace {

/// Returns the elements of an array in row-major order, each little-endian.
std::vector<std::byte> to_plain(const formats::NpyHeader& header, std::span<const std::byte> data) {
  const std::size_t rank = header.shape.size();
  Strided array = {header.shape, Shape(rank), 0, size_of(header.dtype)};
  std::size_t stride = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t axis = header.fortran ? i : rank - 1 - i;
    array.strides[axis] = stride;
    stride *= header.shape[axis];
  }
  return to_row_major(array, data, header.big_endian);
}

constexpr std::string_view kExtension = ".npy";

/// Reads the NPY header of an archive member. Of a compressed member, only the header is unpacked.
formats::NpyHeader member_header(const MappedFile& file, const formats::StoredMember& member) {
  const std::string where = formats::at_member(file, member);
  const auto first_bytes = [&](std::size_t count) {
    if (!member.deflated) return std::string(text_of(member.data).substr(0, count));
    std::string first(count, '\0');
    first.resize(formats::unpack_first(where, member.data, std::as_writable_bytes(std::span(first))));
    return first;
  };
  const std::size_t end = formats::npy_header_end(where, first_bytes(formats::kNpyPreamble));
  const std::string text = first_bytes(end);
  if (const auto size = std::min<std::uint64_t>(text.size(), member.size); size < end)
    refuse(where, "got {} bytes, but the header alone needs {}; the array is cut off", size, end);
  return formats::read_npy_header(where, text, member.size - end, true);
}

}  // namespace

void read_npy(const MappedFile& file, Checkpoint& checkpoint, Warnings& /*warnings*/) {
  const std::string_view text = file.text();
  const std::size_t end = formats::npy_header_end(file.name(), text.substr(0, formats::kNpyPreamble));
  if (end > text.size()) {
    refuse(file.name(), "got a header of {} bytes in a file of {}; was it downloaded whole?", end,
           text.size());
  }
  const auto header = formats::read_npy_header(file.name(), text.substr(0, end), text.size() - end);
  const auto data = file.bytes().subspan(end);
  TensorInfo info = {std::filesystem::path(file.path()).stem().string(), header.dtype, header.shape};
  if (header.is_plain()) return checkpoint.add(file, std::move(info), data);
  checkpoint.add(file, std::move(info), data, 2 * std::uint64_t{data.size()},
                 [header, data](std::vector<std::byte>& copy) -> std::span<const std::byte> {
                   return copy = to_plain(header, data);
                 });
}

void read_npz(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings) {
  for (const formats::StoredMember& member : formats::read_zip_directory(file)) {
    if (!member.name.ends_with(kExtension)) {
      warnings.add("ignored_member", formats::at_member(file, member) + " is not an NPY array");
      continue;
    }
    const std::string name = member.name.substr(0, member.name.size() - kExtension.size());
    const formats::NpyHeader header = member_header(file, member);
    const std::uint64_t unpacked = member.deflated ? member.data.size() + member.size : 0;
    TensorInfo info = {name, header.dtype, header.shape};
    info.text = header.text;
    checkpoint.add(file, std::move(info), member.data,
                   header.is_plain() ? unpacked : unpacked + 2 * std::uint64_t{member.size},
                   [member, header, &file](std::vector<std::byte>& copy) -> std::span<const std::byte> {
                     const auto data = formats::unpack(file, member, copy).subspan(header.data_begin);
                     if (header.is_plain()) return data;
                     return copy = to_plain(header, data);
                   });
  }
}

}  // namespace attnctl::checkpoint

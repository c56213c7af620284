#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "checkpoint/numpy/npy.hpp"
#include "formats/zip.hpp"

namespace attnctl {
namespace {

constexpr std::string_view kExtension = ".npy";

struct Array {
  StoredMember member;
  NpyHeader header;
  bool ready = false;               // data were checked, and converted where they have to be
  std::vector<std::byte> buffer;    // unpacked or converted, else empty
  std::span<const std::byte> data;  // the elements, row-major and little-endian
};

/// Reads the header alone: a member that is packed is unpacked no further.
NpyHeader member_header(const FileBytes& file, const StoredMember& member) {
  const std::string where = at_member(file, member);
  std::string first;
  if (!member.deflated) {
    const std::string_view text(reinterpret_cast<const char*>(member.data.data()), member.data.size());
    const std::size_t end = npy_header_end(where, text.substr(0, kNpyPreamble));
    first = text.substr(0, end);
    if (first.size() != end)
      fail(Status::bad_input, "{}: got {} bytes, need a header of {}", where, text.size(), end);
  } else {
    Inflater inflater(where, member.data);
    const auto extend = [&](std::size_t size) {
      const std::size_t before = first.size();
      first.resize(size);
      const auto room = std::as_writable_bytes(std::span(first)).subspan(before);
      first.resize(before + inflater.read(room));
    };
    extend(kNpyPreamble);
    const std::size_t end = npy_header_end(where, first);
    extend(std::max(end, first.size()));
    if (first.size() < end)
      fail(Status::bad_input, "{}: got {} bytes, need a header of {}", where, first.size(), end);
    first.resize(end);
  }
  NpyHeader header = read_npy_header(where, first);
  if (member.size < header.data_begin)
    fail(Status::bad_input, "{}: got {} bytes, need a header of {}", where, member.size, header.data_begin);
  check_npy_size(where, header, member.size - header.data_begin);
  return header;
}

std::string tensor_name(const Array& array) {
  return array.member.name.substr(0, array.member.name.size() - kExtension.size());
}

class NpzFile final : public Checkpoint {
 public:
  NpzFile(FileBytes file, std::vector<Array> arrays) : file_(std::move(file)), arrays_(std::move(arrays)) {
    for (const Array& array : arrays_) {
      tensors_.push_back({tensor_name(array), array.header.dtype, array.header.shape, file_.name()});
    }
  }

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }

  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const TensorInfo& info = tensors_.at(index);
    Array& array = arrays_[index];
    if (!array.ready) load(array);
    return {info.dtype, info.shape, array.data};
  }

  void release(std::size_t index) override {
    Array& array = arrays_.at(index);
    file_.forget(array.member.data);
    array.ready = false;
    std::vector<std::byte>().swap(array.buffer);
  }

  void forget(std::size_t index, std::span<const std::byte> part) override {
    if (arrays_.at(index).buffer.empty()) file_.forget(part);
  }

  [[nodiscard]] std::uint64_t copied_bytes(std::size_t index) const override {
    const Array& array = arrays_.at(index);
    const std::uint64_t unpacked = array.member.deflated ? array.member.data.size() + array.member.size : 0;
    return array.header.is_plain() ? unpacked : unpacked + 2 * std::uint64_t{array.member.size};
  }

 private:
  void load(Array& array) {
    array.data = unpack(file_, array.member, array.buffer).subspan(array.header.data_begin);
    if (!array.header.is_plain()) {
      array.buffer = to_plain(array.header, array.data);
      array.data = array.buffer;
    }
    array.ready = true;
  }

  FileBytes file_;
  std::vector<Array> arrays_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_npz(FileBytes file, Warnings& warnings) {
  std::vector<Array> arrays;
  for (StoredMember& member : read_zip_directory(file)) {
    if (!member.name.ends_with(kExtension)) {
      warnings.add("ignored_member", at_member(file, member) + " is no NPY array");
      continue;
    }
    NpyHeader header = member_header(file, member);
    arrays.push_back({std::move(member), std::move(header), false, {}, {}});
  }
  // Not the order of the members: "a" is before "a-b", but "a-b.npy" before "a.npy".
  std::sort(arrays.begin(), arrays.end(),
            [](const Array& a, const Array& b) { return tensor_name(a) < tensor_name(b); });
  return std::make_unique<NpzFile>(std::move(file), std::move(arrays));
}

}  // namespace attnctl

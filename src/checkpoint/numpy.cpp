#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/readers.hpp"
#include "checkpoint/strided.hpp"
#include "formats/npy.hpp"
#include "formats/zip.hpp"

namespace attnctl {
namespace {

/// Returns the elements in row-major, little-endian order.
std::vector<std::byte> to_plain(const NpyHeader& header, std::span<const std::byte> data) {
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

class NpyFile final : public FileCheckpoint {
 public:
  NpyFile(FileBytes npy, std::string name, NpyHeader header)
      : FileCheckpoint(std::move(npy)), header_(std::move(header)) {
    const auto data = file().bytes().subspan(header_.data_begin);
    add({std::move(name), header_.dtype, header_.shape, file().name()}, data,
        header_.is_plain() ? 0 : 2 * std::uint64_t{data.size()});
  }

 private:
  [[nodiscard]] std::span<const std::byte> load(std::size_t index, std::vector<std::byte>& copy) override {
    if (header_.is_plain()) return bytes(index);
    copy = to_plain(header_, bytes(index));
    return copy;
  }

  NpyHeader header_;
};

constexpr std::string_view kExtension = ".npy";

struct Array {
  StoredMember member;
  NpyHeader header;
};

/// Reads the header. Unpacks no more of a compressed member than that.
NpyHeader member_header(const FileBytes& file, const StoredMember& member) {
  const std::string where = at_member(file, member);
  std::string first;
  if (!member.deflated) {
    const std::string_view text(reinterpret_cast<const char*>(member.data.data()), member.data.size());
    const std::size_t end = npy_header_end(where, text.substr(0, kNpyPreamble));
    first = text.substr(0, end);
    if (first.size() != end) refuse(where, "got {} bytes, need a header of {}", text.size(), end);
  } else {
    Inflater inflater(where, member.data);
    const auto extend = [&](std::size_t size) {
      const std::size_t before = first.size();
      first.resize(size);
      first.resize(before + inflater.read(std::as_writable_bytes(std::span(first)).subspan(before)));
    };
    extend(kNpyPreamble);
    const std::size_t end = npy_header_end(where, first);
    extend(std::max(end, first.size()));
    if (first.size() < end) refuse(where, "got {} bytes, need a header of {}", first.size(), end);
    first.resize(end);
  }
  NpyHeader header = read_npy_header(where, first);
  if (member.size < header.data_begin)
    refuse(where, "got {} bytes, need a header of {}", member.size, header.data_begin);
  check_npy_size(where, header, member.size - header.data_begin);
  return header;
}

std::string tensor_name(const Array& array) {
  return array.member.name.substr(0, array.member.name.size() - kExtension.size());
}

class NpzFile final : public FileCheckpoint {
 public:
  NpzFile(FileBytes npz, std::vector<Array> arrays)
      : FileCheckpoint(std::move(npz)), arrays_(std::move(arrays)) {
    for (const Array& array : arrays_) {
      const auto& [member, header] = array;
      const std::uint64_t unpacked = member.deflated ? member.data.size() + member.size : 0;
      add({tensor_name(array), header.dtype, header.shape, file().name()}, member.data,
          header.is_plain() ? unpacked : unpacked + 2 * std::uint64_t{member.size});
    }
  }

 private:
  [[nodiscard]] std::span<const std::byte> load(std::size_t index, std::vector<std::byte>& copy) override {
    const auto& [member, header] = arrays_[index];
    const auto data = unpack(file(), member, copy).subspan(header.data_begin);
    if (header.is_plain()) return data;
    copy = to_plain(header, data);
    return copy;
  }

  std::vector<Array> arrays_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_npy(FileBytes file, std::string name) {
  const std::string_view text = file.text();
  const std::size_t end = npy_header_end(file.name(), text.substr(0, kNpyPreamble));
  if (end > text.size()) {
    refuse(file.name(), "got a header of {} bytes in a file of {}; was it downloaded whole?", end,
           text.size());
  }
  NpyHeader header = read_npy_header(file.name(), text.substr(0, end));
  check_npy_size(file.name(), header, text.size() - end);
  return std::make_unique<NpyFile>(std::move(file), std::move(name), std::move(header));
}

std::unique_ptr<Checkpoint> open_npz(FileBytes file, Warnings& warnings) {
  std::vector<Array> arrays;
  for (StoredMember& member : read_zip_directory(file)) {
    if (!member.name.ends_with(kExtension)) {
      warnings.add("ignored_member", at_member(file, member) + " is not an NPY array");
      continue;
    }
    NpyHeader header = member_header(file, member);
    arrays.push_back({std::move(member), std::move(header)});
  }
  // Not the order of the members: "a" is before "a-b", but "a-b.npy" before "a.npy".
  std::ranges::sort(arrays, {}, tensor_name);
  return std::make_unique<NpzFile>(std::move(file), std::move(arrays));
}

}  // namespace attnctl

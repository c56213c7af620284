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

constexpr std::string_view kExtension = ".npy";

struct Array {
  StoredMember member;
  NpyHeader header;
  bool ready = false;               // `data` is checked, and converted if necessary
  std::vector<std::byte> buffer;    // the unpacked or converted member, or empty
  std::span<const std::byte> data;  // the elements, row-major and little-endian
};

/// Reads the header. Unpacks no more of a compressed member than that.
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
      first.resize(before + inflater.read(std::as_writable_bytes(std::span(first)).subspan(before)));
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

std::unique_ptr<Checkpoint> open_npz(FileBytes file, Warnings& warnings) {
  std::vector<Array> arrays;
  for (StoredMember& member : read_zip_directory(file)) {
    if (!member.name.ends_with(kExtension)) {
      warnings.add("ignored_member", at_member(file, member) + " is not an NPY array");
      continue;
    }
    NpyHeader header = member_header(file, member);
    arrays.push_back({std::move(member), std::move(header), false, {}, {}});
  }
  // Not the order of the members: "a" is before "a-b", but "a-b.npy" before "a.npy".
  std::ranges::sort(arrays, {}, tensor_name);
  return std::make_unique<NpzFile>(std::move(file), std::move(arrays));
}

}  // namespace attnctl

#include "checkpoint/numpy/npy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/shown.hpp"
#include "checkpoint/strided.hpp"

namespace attnctl {
namespace {

Strided strided_of(const NpyHeader& header) {
  const std::size_t rank = header.shape.size();
  Strided strided{header.shape, Shape(rank, 1), 0, size_of(header.dtype)};
  std::size_t stride = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t axis = header.fortran ? i : rank - 1 - i;
    strided.strides[axis] = stride;
    stride *= header.shape[axis];
  }
  return strided;
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
    if (is_plain(header_)) return {info_.dtype, info_.shape, data_};
    if (plain_.size() != data_.size()) plain_ = to_plain(header_, data_);
    return {info_.dtype, info_.shape, plain_};
  }

  void release(std::size_t /*index*/) override {
    file_.forget(data_);
    std::vector<std::byte>().swap(plain_);
  }

  void forget(std::size_t /*index*/, std::span<const std::byte> part) override {
    if (is_plain(header_)) file_.forget(part);
  }

  [[nodiscard]] std::uint64_t copied_bytes(std::size_t /*index*/) const override {
    return is_plain(header_) ? 0 : 2 * std::uint64_t{data_.size()};
  }

 private:
  FileBytes file_;
  NpyHeader header_;
  TensorInfo info_;
  std::span<const std::byte> data_;
  std::vector<std::byte> plain_;
};

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kVersionAt = 6;
constexpr std::size_t kLengthAt = 8;
constexpr std::size_t kMaxNpyHeader = std::size_t{1} << 20;
constexpr std::size_t kMaxNpyDimensions = 64;

struct NpyType {
  std::string_view code;
  DType dtype;
};
constexpr std::array<NpyType, 12> kNpyTypes = {{{"f8", DType::f64},
                                                {"f4", DType::f32},
                                                {"f2", DType::f16},
                                                {"i8", DType::i64},
                                                {"i4", DType::i32},
                                                {"i2", DType::i16},
                                                {"i1", DType::i8},
                                                {"u8", DType::u64},
                                                {"u4", DType::u32},
                                                {"u2", DType::u16},
                                                {"u1", DType::u8},
                                                {"b1", DType::boolean}}};

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } and rejects any other syntax.
class NpyHeaderReader {
 public:
  NpyHeaderReader(std::string_view where, std::string_view text, std::size_t offset)
      : where_(where), text_(text), offset_(offset) {}

  NpyHeader read() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string("a key");
      expect(':');
      read_member(key);
      if (accept('}')) break;
      expect(',');
    }
    skip_space();
    if (at_ != text_.size()) reject("the end of the header");
    for (const std::string_view key : {"descr", "fortran_order", "shape"}) {
      if (std::find(seen_.begin(), seen_.end(), key) == seen_.end()) {
        fail(Status::bad_input, "{}: header: the key '{}' is missing", where_, key);
      }
    }
    return header_;
  }

 private:
  void read_member(std::string_view key) {
    if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
      fail(Status::bad_input, "{}: header: got the key '{}' twice", where_, shown(key));
    }
    seen_.push_back(key);
    if (key == "descr") {
      descr();
    } else if (key == "fortran_order") {
      header_.fortran = boolean();
    } else if (key == "shape") {
      shape();
    } else {
      fail(Status::bad_input, "{}: header: unsupported key '{}', need descr, fortran_order, shape", where_,
           shown(key));
    }
  }

  void descr() {
    skip_space();
    if (peek() == '[')
      fail(Status::bad_input, "{}: descr: unsupported structured dtype, need a plain one", where_);
    const std::string_view descr = string("a dtype");
    const std::string_view code = descr.substr(std::min<std::size_t>(1, descr.size()));
    const char order = descr.empty() ? ' ' : descr.front();
    const auto* const row =
        std::find_if(kNpyTypes.begin(), kNpyTypes.end(), [&](const NpyType& r) { return r.code == code; });
    const bool known = row != kNpyTypes.end() &&
                       (order == '<' || order == '>' || (order == '|' && size_of(row->dtype) == 1));
    if (!known) {
      const bool object = code.starts_with('O');
      fail(Status::bad_input,
           "{}: descr: unsupported dtype {}{}, need float, integer or bool; convert with astype", where_,
           in_quotes(descr), object ? " (Python objects, which are never unpickled)" : "");
    }
    header_.dtype = row->dtype;
    header_.big_endian = order == '>' && size_of(row->dtype) > 1;
  }

  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    reject("True or False");
  }

  void shape() {
    expect('(');
    while (!accept(')')) {
      if (header_.shape.size() == kMaxNpyDimensions)
        reject(fmt::format("at most {} dimensions", kMaxNpyDimensions));
      header_.shape.push_back(extent());
      if (accept(')')) {
        if (header_.shape.size() == 1) reject("a comma, as in (n,)");
        return;
      }
      expect(',');
    }
  }

  std::size_t extent() {
    skip_space();
    std::size_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [next, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) reject("an extent that fits 64 bits");
    if (error != std::errc()) reject("an extent of at least 0");
    at_ += static_cast<std::size_t>(next - begin);
    if (peek() == 'L') ++at_;  // written by Python 2
    return value;
  }

  std::string_view string(std::string_view what) {
    skip_space();
    const char quote = peek();
    if (quote != '\'' && quote != '"') reject(fmt::format("{} in quotes", what));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) reject("a closing quote");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r') ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) reject(fmt::format("'{}'", c));
  }
  [[noreturn]] void reject(std::string_view needed) const {
    const std::string got = at_ < text_.size() ? in_quotes(text_.substr(at_, 12)) : "the end of the header";
    fail(Status::bad_input, "{}: header @byte {}: got {}, need {}", where_, offset_ + at_, got, needed);
  }

  std::string_view where_;
  std::string_view text_;
  std::size_t offset_;
  std::size_t at_ = 0;
  std::vector<std::string_view> seen_;
  NpyHeader header_;
};

/// Returns the offset of the dictionary: version 1 stores its length in two bytes, later versions in four.
std::size_t dictionary_begin(std::string_view text) {
  return text[kVersionAt] == 1 ? kLengthAt + 2 : kLengthAt + 4;
}

}  // namespace

bool is_plain(const NpyHeader& header) {
  return !header.big_endian && is_row_major(strided_of(header));
}

std::vector<std::byte> to_plain(const NpyHeader& header, std::span<const std::byte> data) {
  return to_row_major(strided_of(header), data, header.big_endian);
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

std::size_t npy_header_end(std::string_view where, std::string_view first) {
  if (first.size() < kLengthAt + 2 || !first.starts_with(kNpyMagic)) {
    fail(Status::bad_input, "{}: got {}, need the magic bytes of an NPY array", where,
         in_quotes(first.substr(0, 6)));
  }
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(first[i]));
  };
  if (byte(kVersionAt) < 1 || byte(kVersionAt) > 3 || byte(kVersionAt + 1) != 0) {
    fail(Status::bad_input, "{}: unsupported NPY version {}.{}, need 1.0, 2.0 or 3.0", where,
         byte(kVersionAt), byte(kVersionAt + 1));
  }
  const std::size_t begin = dictionary_begin(first);
  if (first.size() < begin)
    fail(Status::bad_input, "{}: got {} bytes, need an NPY header", where, first.size());
  std::size_t length = 0;
  for (std::size_t i = begin; i-- > kLengthAt;) length = length << 8 | byte(i);
  if (length > kMaxNpyHeader) {
    fail(Status::bad_input, "{}: header length @byte {}: got {}, need at most {}", where, kLengthAt, length,
         kMaxNpyHeader);
  }
  return begin + length;
}

NpyHeader read_npy_header(std::string_view where, std::string_view text) {
  const std::size_t begin = dictionary_begin(text);
  NpyHeader header = NpyHeaderReader(where, text.substr(begin), begin).read();
  const auto count = checked_product(header.shape);
  const auto size = count ? checked_mul(*count, size_of(header.dtype)) : std::nullopt;
  if (!size) fail(Status::bad_input, "{}: shape: got one whose size does not fit 64 bits", where);
  header.data_begin = text.size();
  header.data_size = *size;
  return header;
}

void check_npy_size(std::string_view where, const NpyHeader& header, std::size_t size) {
  if (size != header.data_size) {
    fail(Status::bad_input, "{}: got {} bytes of data, need {} for shape {} of {}", where, size,
         header.data_size, to_string(header.shape), name_of(header.dtype));
  }
}

}  // namespace attnctl

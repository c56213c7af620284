#include "formats/npy.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <stdexcept>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace attnctl::formats {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionAt = 6;
constexpr std::size_t kLengthAt = 8;
constexpr std::size_t kMaxHeaderSize = std::size_t{1} << 20;
constexpr std::size_t kMaxDimensions = 64;

struct DescrRow {
  std::string_view code;  // type code without the byte order character
  DType dtype;
};
constexpr DescrRow kDescrs[] = {{"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16},
                                {"i8", DType::i64}, {"i4", DType::i32}, {"i2", DType::i16},
                                {"i1", DType::i8},  {"u8", DType::u64}, {"u4", DType::u32},
                                {"u2", DType::u16}, {"u1", DType::u8},  {"b1", DType::boolean}};

/// Reads a Python dictionary such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Accepts
/// only these three keys and these types of values.
class DictReader {
 public:
  DictReader(std::string_view where, std::string_view text, std::size_t offset, bool strings)
      : where_(where), text_(text), offset_(offset), strings_(strings) {}

  NpyHeader read() {
    expect("{");
    while (!accept("}")) {
      const std::string_view key = string("a key");
      expect(":");
      member(key);
      if (accept("}")) break;
      expect(",");
    }
    skip_space();
    if (at_ != text_.size()) need("the end of the header");
    for (const std::string_view key : {"descr", "fortran_order", "shape"}) {
      if (!has(key)) refuse(where_, "header: the key '{}' is missing", key);
    }
    if (header_.text) {
      if (!header_.is_plain() && header_.fortran)
        refuse(where_, "unsupported column-major array of strings; save it with np.ascontiguousarray");
      header_.fortran = false;
      header_.shape.push_back(characters_);
    }
    return header_;
  }

 private:
  [[nodiscard]] bool has(std::string_view key) const { return std::ranges::count(seen_, key) > 0; }

  void member(std::string_view key) {
    if (has(key)) refuse(where_, "header: got the key '{}' twice", shown(key));
    seen_.push_back(key);
    if (key == "descr") {
      descr();
    } else if (key == "fortran_order") {
      header_.fortran = accept("True");
      if (!header_.fortran && !accept("False")) need("True or False");
    } else if (key == "shape") {
      shape();
    } else {
      refuse(where_, "header: unsupported key '{}', need descr, fortran_order, shape", shown(key));
    }
  }

  void descr() {
    skip_space();
    if (peek() == '[') refuse(where_, "descr: unsupported structured dtype, need a plain one");
    const std::string_view descr = string("a dtype");
    const std::string_view code = descr.substr(std::min<std::size_t>(1, descr.size()));
    const char order = descr.empty() ? ' ' : descr.front();
    const auto* const row = std::ranges::find(kDescrs, code, &DescrRow::code);
    const bool known = row != std::end(kDescrs) &&
                       (order == '<' || order == '>' || (order == '|' && size_of(row->dtype) == 1));
    const bool code_points = code.starts_with('U') && (order == '<' || order == '>');
    if (strings_ && (code_points || (code.starts_with('S') && order == '|'))) {
      const auto characters = parse_number(code.substr(1));
      if (!characters) need("the number of characters of a string");
      characters_ = *characters;
      header_.text = true;
      header_.dtype = code_points ? DType::u32 : DType::u8;
      header_.big_endian = order == '>';
      return;
    }
    if (!known) {
      const bool object = code.starts_with('O');
      refuse(where_,
             "descr: unsupported dtype {}{}, need a float of 16, 32 or 64 bits, an integer or a bool; "
             "convert with astype",
             in_quotes(descr), object ? " (Python objects, which are never unpickled)" : "");
    }
    header_.dtype = row->dtype;
    header_.big_endian = order == '>' && size_of(row->dtype) > 1;
  }

  void shape() {
    expect("(");
    while (!accept(")")) {
      if (header_.shape.size() == kMaxDimensions) need(fmt::format("at most {} dimensions", kMaxDimensions));
      header_.shape.push_back(extent());
      skip_space();
      const bool last = peek() == ')';
      if (last && header_.shape.size() == 1) need("a comma: the shape of one dimension is (n,)");
      if (!last) expect(",");
    }
  }

  std::size_t extent() {
    skip_space();
    std::size_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [next, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) need("an extent that fits 64 bits");
    if (error != std::errc()) need("an extent of at least 0");
    at_ += static_cast<std::size_t>(next - begin);
    if (peek() == 'L') ++at_;  // Python 2 writes an L after some integers
    return value;
  }

  std::string_view string(std::string_view what) {
    skip_space();
    const char quote = peek();
    if (quote != '\'' && quote != '"') need(fmt::format("{} in quotes", what));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) need("a closing quote");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \n\t\r", at_), text_.size()); }
  bool accept(std::string_view word) {
    skip_space();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) need(fmt::format("'{}'", word));
  }
  [[noreturn]] void need(std::string_view needed) const {
    const std::string got = at_ < text_.size() ? in_quotes(text_.substr(at_, 12)) : "the end of the header";
    refuse(where_, "header @byte {}: got {}, need {}", offset_ + at_, got, needed);
  }

  std::string_view where_;
  std::string_view text_;
  std::size_t offset_;
  bool strings_;
  std::size_t at_ = 0;
  std::size_t characters_ = 0;  // of a string
  std::vector<std::string_view> seen_;
  NpyHeader header_;
};

/// Returns the offset of the dictionary. The length of the dictionary is stored before it, in two bytes in
/// version 1 and in four bytes in later versions.
std::size_t dictionary_begin(std::string_view text) {
  return text[kVersionAt] == 1 ? kLengthAt + 2 : kLengthAt + 4;
}

}  // namespace

bool NpyHeader::is_plain() const {
  const auto long_axes = std::ranges::count_if(shape, [](std::size_t extent) { return extent != 1; });
  return !big_endian && (!fortran || long_axes < 2);
}

std::size_t npy_header_end(std::string_view where, std::string_view first) {
  if (first.size() < kLengthAt + 2 || !first.starts_with(kMagic))
    refuse(where, "got {}, need an NPY array, which begins with \"\\x93NUMPY\", its version and a length",
           in_quotes(first.substr(0, 6)));
  const int major = static_cast<unsigned char>(first[kVersionAt]);
  const int minor = static_cast<unsigned char>(first[kVersionAt + 1]);
  if (major < 1 || major > 3 || minor != 0)
    refuse(where, "unsupported NPY version {}.{}, need 1.0, 2.0 or 3.0", major, minor);
  const std::size_t begin = dictionary_begin(first);
  if (first.size() < begin)
    refuse(where, "got only {} bytes, need at least {} for an NPY header", first.size(), begin);
  const std::size_t length = little_endian(first.substr(kLengthAt, begin - kLengthAt));
  if (length > kMaxHeaderSize)
    refuse(where, "header length @byte {}: got {}, need at most {}", kLengthAt, length, kMaxHeaderSize);
  return begin + length;
}

NpyHeader read_npy_header(std::string_view where, std::string_view text, std::size_t data_size,
                          bool strings) {
  const std::size_t begin = dictionary_begin(text);
  NpyHeader header = DictReader(where, text.substr(begin), begin, strings).read();
  const auto size = checked_product(header.shape, size_of(header.dtype));
  if (!size) {
    refuse(
        where,
        "shape: got {}; too large: the product of its extents that are not 0, in bytes, does not fit 64 bits",
        to_string(header.shape));
  }
  if (*size != data_size) {
    refuse(where, "got {} bytes of data, need {} for shape {} of {}", data_size, *size,
           to_string(header.shape), name_of(header.dtype));
  }
  header.data_begin = text.size();
  return header;
}

std::string npy_header(DType dtype, const Shape& shape) {
  const auto* const row = std::ranges::find(kDescrs, dtype, &DescrRow::dtype);
  if (row == std::end(kDescrs)) throw std::invalid_argument("npy_header: NumPy has no bf16");
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 size_of(dtype) > 1 ? '<' : '|', row->code, fmt::join(shape, ", "),
                                 shape.size() == 1 ? "," : "");
  constexpr std::size_t kPrefix = kLengthAt + 2;
  const std::size_t total = (kPrefix + text.size() + 1 + 63) / 64 * 64;
  text.resize(total - kPrefix - 1, ' ');
  text += '\n';
  return std::string(kMagic) + '\x01' + '\0' + static_cast<char>(text.size() & 0xFFU) +
         static_cast<char>(text.size() >> 8U) + text;
}

}  // namespace attnctl::formats

#include "tokenizer/normalizers/charsmap.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/shown.hpp"
#include "base/utf8.hpp"

namespace attnctl {
namespace {

constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t unit_size = 4;

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::array<int, 256> value{};
  value.fill(-1);
  for (std::size_t i = 0; i < base64_digits.size(); ++i) {
    value[static_cast<unsigned char>(base64_digits[i])] = static_cast<int>(i);
  }
  std::size_t padding = 0;
  while (padding < 2 && text.size() > padding && text[text.size() - 1 - padding] == '=') ++padding;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int digit = i + padding < text.size() ? value[static_cast<unsigned char>(text[i])] : 0;
    if (digit < 0) return std::nullopt;
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (const unsigned shift : {16U, 8U, 0U}) bytes += static_cast<char>(bits >> shift & 0xFFU);
    bits = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < unit_size; ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// The fields of a unit.
constexpr bool has_leaf(std::uint32_t unit) {
  return (unit >> 8U & 1U) != 0;
}
constexpr std::uint32_t leaf_value(std::uint32_t unit) {
  return unit & 0x7FFFFFFFU;
}
/// The label, and bit 31, which is set in leaves: no byte is equal to a leaf.
constexpr std::uint32_t label(std::uint32_t unit) {
  return unit & 0x800000FFU;
}
constexpr std::size_t offset(std::uint32_t unit) {
  return std::size_t{unit >> 10U} << ((unit & 0x200U) >> 6U);
}

}  // namespace

Charsmap::Charsmap(const PartConfig& where, std::string_view base64)
    : place_(fmt::format("{}: {}", where.file(), shown(where.pointer()))) {
  const std::optional<std::string> bytes = from_base64(base64);
  if (!bytes)
    where.refuse("", "expected base64, found other characters or a length that is no multiple of 4");
  if (bytes->size() < unit_size) {
    where.refuse("", fmt::format("expected a charsmap, found {} bytes", bytes->size()));
  }
  const std::size_t size = little_endian(*bytes);
  const std::string_view rest = std::string_view(*bytes).substr(unit_size);
  if (size > rest.size() || size % unit_size != 0 || size == 0) {
    where.refuse("", fmt::format("the trie should have {} bytes, of {} that follow", size, rest.size()));
  }
  units_.reserve(size / unit_size);
  for (std::size_t at = 0; at < size; at += unit_size) units_.push_back(little_endian(rest.substr(at)));
  replacements_ = rest.substr(size);
  if (!is_utf8(replacements_)) where.refuse("", "the replacements of the charsmap are not UTF-8");
}

void Charsmap::damaged() const {
  fail(Status::bad_input, "{}: the charsmap's trie leads out of itself; the file is damaged", place_);
}

std::uint32_t Charsmap::unit(std::size_t at) const {
  if (at >= units_.size()) damaged();
  return units_[at];
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  std::size_t at = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    at ^= byte;
    const std::uint32_t node = unit(at);
    if (label(node) != byte) return std::nullopt;
    at ^= offset(node);
    if (!has_leaf(node)) continue;
    const std::size_t begin = leaf_value(unit(at));
    if (begin > replacements_.size()) damaged();
    const std::string_view replacement = std::string_view(replacements_).substr(begin);
    if (!replacement.empty() && (static_cast<unsigned char>(replacement[0]) & 0xC0U) == 0x80U) damaged();
    return replacement.substr(0, replacement.find('\0'));
  }
  return std::nullopt;
}

}  // namespace attnctl

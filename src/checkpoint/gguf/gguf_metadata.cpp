#include "checkpoint/gguf/gguf_metadata.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {
namespace {

template <typename Number>
Number number_of(const GgufValue& value) {
  Number number{};
  std::memcpy(&number, value.bytes.data(), sizeof number);
  return number;
}

/// An integer of any type; negative ones are two's complement with `negative` set.
struct GgufInteger {
  std::uint64_t bits = 0;
  bool negative = false;
};

template <typename Number>
GgufInteger integer_as(const GgufValue& value) {
  const auto number = number_of<Number>(value);
  return {static_cast<std::uint64_t>(number), std::cmp_less(number, 0)};
}

std::optional<GgufInteger> integer_of(const GgufValue& value) {
  if (value.count) return std::nullopt;
  switch (value.type) {
    case GgufType::u8:
      return integer_as<std::uint8_t>(value);
    case GgufType::i8:
      return integer_as<std::int8_t>(value);
    case GgufType::u16:
      return integer_as<std::uint16_t>(value);
    case GgufType::i16:
      return integer_as<std::int16_t>(value);
    case GgufType::u32:
      return integer_as<std::uint32_t>(value);
    case GgufType::i32:
      return integer_as<std::int32_t>(value);
    case GgufType::u64:
      return integer_as<std::uint64_t>(value);
    case GgufType::i64:
      return integer_as<std::int64_t>(value);
    default:
      return std::nullopt;
  }
}

std::optional<double> number_of(const GgufValue& value) {
  if (value.count) return std::nullopt;
  if (value.type == GgufType::f32) return double{number_of<float>(value)};
  if (value.type == GgufType::f64) return number_of<double>(value);
  return std::nullopt;
}

std::string format_value(const GgufValue& value) {
  if (value.count) return fmt::format("an array of {}", *value.count);
  if (const auto integer = integer_of(value)) {
    return integer->negative ? fmt::format("{}", static_cast<std::int64_t>(integer->bits))
                             : fmt::format("{}", integer->bits);
  }
  if (const auto number = number_of(value)) return fmt::format("{}", *number);
  if (value.type == GgufType::boolean) return number_of<std::uint8_t>(value) != 0 ? "true" : "false";
  return in_quotes({reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()});
}

}  // namespace

GgufMetadata::GgufMetadata(std::string file, std::vector<GgufValue> values)
    : file_(std::move(file)), values_(std::move(values)) {
  std::ranges::sort(values_, {}, &GgufValue::key);
  const auto twice = std::ranges::adjacent_find(values_, {}, &GgufValue::key);
  if (twice != values_.end()) {
    fail(Status::bad_input, "{}: metadata {}: got the key twice, need different keys", file_,
         in_quotes(twice->key));
  }
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = std::ranges::lower_bound(values_, key, {}, &GgufValue::key);
  return found != values_.end() && found->key == key ? &*found : nullptr;
}

std::optional<std::uint64_t> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto integer = integer_of(*value);
  if (!integer || integer->negative) reject(*value, "an integer of at least 0");
  return integer->bits;
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = number_of(*value);
  if (!number || !std::isfinite(*number)) reject(*value, "a finite floating-point number");
  return number;
}

std::optional<std::string_view> GgufMetadata::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::string || value->count) reject(*value, "a string");
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

std::optional<bool> GgufMetadata::flag(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::boolean || value->count) reject(*value, "true or false");
  return number_of<std::uint8_t>(*value) != 0;
}

std::optional<std::vector<std::string>> GgufMetadata::texts(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::string || !value->count) reject(*value, "an array of strings");
  std::vector<std::string> texts;
  std::span<const std::byte> rest = value->bytes;  // lengths were checked against the file
  for (std::uint64_t i = 0; i < *value->count; ++i) {
    std::uint64_t size = 0;
    std::memcpy(&size, rest.data(), sizeof size);
    rest = rest.subspan(sizeof size);
    texts.emplace_back(reinterpret_cast<const char*>(rest.data()), size);
    rest = rest.subspan(size);
  }
  return texts;
}

std::optional<std::vector<float>> GgufMetadata::floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::f32 || !value->count) reject(*value, "an array of numbers in float32");
  std::vector<float> numbers(*value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->bytes.data(), value->bytes.size());
  for (const float number : numbers) {
    if (!std::isfinite(number)) reject(*value, "finite numbers");
  }
  return numbers;
}

std::optional<std::vector<std::int64_t>> GgufMetadata::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool whole = value->type < GgufType::f32;
  if (!whole || !value->count) reject(*value, "an array of integers of at most 32 bits");
  std::vector<std::int64_t> numbers;
  const std::size_t width = *value->count == 0 ? 0 : value->bytes.size() / *value->count;
  for (std::uint64_t i = 0; i < *value->count; ++i) {
    GgufValue one = *value;
    one.count.reset();
    one.bytes = value->bytes.subspan(i * width, width);
    numbers.push_back(static_cast<std::int64_t>(integer_of(one)->bits));
  }
  return numbers;
}

void GgufMetadata::reject(const GgufValue& value, std::string_view need) const {
  fail(Status::bad_input, "{}: metadata {} @byte {}: got {}, need {}", file_, in_quotes(value.key), value.at,
       format_value(value), need);
}

}  // namespace attnctl

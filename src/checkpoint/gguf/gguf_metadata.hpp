#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/mapped_file.hpp"

namespace attnctl {

/// Types of metadata values, with their numbers in the file.
enum class GgufType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

/// A value within the file. Array elements are not checked except for their lengths.
struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::u8;        // type of the elements, for arrays
  std::optional<std::uint64_t> count;  // number of elements, for arrays
  std::span<const std::byte> bytes;    // a string's characters; other types as stored
  std::size_t at = 0;                  // offset in the file, for messages
};

/// Keys and values of a GGUF file. Reading a value as another type than its own throws Error(bad_input).
class GgufMetadata {
 public:
  GgufMetadata() = default;
  /// Throws Error(bad_input) for duplicate keys. The file must outlive this object.
  GgufMetadata(std::string file, std::vector<GgufValue> values);

  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  /// Non-negative integers of any width.
  [[nodiscard]] std::optional<std::uint64_t> integer(std::string_view key) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;  // finite
  [[nodiscard]] std::optional<std::string_view> text(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  /// Arrays of strings, of finite float32 numbers, and of integers with 8 to 32 bits.
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<float>> floats(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;

  [[noreturn]] void reject(const GgufValue& value, std::string_view need) const;

 private:
  std::string file_;               // escaped
  std::vector<GgufValue> values_;  // sorted by key
};

}  // namespace attnctl

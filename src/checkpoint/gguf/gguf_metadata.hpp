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

/// Types of metadata values, by their numbers in the file.
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

/// A value where it lies in the file; elements of an array are not looked at but for their lengths.
struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::u8;        // of the elements where it is an array
  std::optional<std::uint64_t> count;  // of elements where it is an array
  std::span<const std::byte> bytes;    // a string's characters, all else as stored
  std::size_t at = 0;                  // its place in the file, for errors
};

/// Keys and values of a GGUF file. What is asked for as another type than it has throws Error(bad_input).
class GgufMetadata {
 public:
  GgufMetadata() = default;
  /// Throws Error(bad_input) where a key is there twice. The file must outlive this.
  GgufMetadata(std::string file, std::vector<GgufValue> values);

  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  /// An integer of any width, not negative.
  [[nodiscard]] std::optional<std::uint64_t> integer(std::string_view key) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;  // finite
  [[nodiscard]] std::optional<std::string_view> text(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  /// Arrays: of strings, of numbers in float32 (finite), of integers of 8 to 32 bits.
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<float>> floats(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;

  [[noreturn]] void refuse(const GgufValue& value, std::string_view need) const;

 private:
  std::string file_;               // escaped
  std::vector<GgufValue> values_;  // by key
};

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl::test {

/// A metadata value of a GGUF file: its type and its bytes.
struct GgufField {
  std::string key;
  std::uint32_t type = 0;
  std::string bytes;
};

[[nodiscard]] std::string gguf_string(std::string_view text);
[[nodiscard]] GgufField gguf_u32(std::string_view key, std::uint32_t value);
[[nodiscard]] GgufField gguf_f32(std::string_view key, float value);
[[nodiscard]] GgufField gguf_text(std::string_view key, std::string_view value);

/// The description of a tensor. Extents are innermost first, as in the file.
struct GgufEntry {
  std::string name;
  std::vector<std::uint64_t> extents;
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

/// The parts of a GGUF file. `data` follows the descriptions, which are padded to 32 bytes.
struct GgufParts {
  std::uint32_t version = 3;
  std::vector<GgufField> fields;
  std::vector<GgufEntry> tensors;
  std::string data;

  [[nodiscard]] std::string bytes() const;
};

}  // namespace attnctl::test

#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "support/refusal.hpp"
#include "tokenizer/parts/part_config.hpp"

namespace attnctl::test {

using namespace tokenizer;

/// Returns a document of expected results of the reference (tests/golden/tokenizer_parts.py).
inline PartConfig::Json parts_golden(const std::string& name) {
  return PartConfig::Json::parse(std::ifstream(ATTNCTL_SOURCE_DIR "/tests/golden/tokenizer_parts/" + name));
}

/// The JSON of a part that is refused, and what the error says.
struct RefusedPart {
  std::string_view json;
  std::vector<std::string_view> says;
};

/// Checks that `make(json)` refuses each part.
template <typename Make>
void check_refused(const std::vector<RefusedPart>& rows, const Make& make) {
  for (const RefusedPart& row : rows) {
    CAPTURE(row.json);
    check_refusal([&] { (void)make(row.json); }, Status::bad_input, row.says);
  }
}

/// FNV-1a, 64 bits, of the bytes of each text and a final 0xFF.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    add(0xFF);
  }
  [[nodiscard]] std::string hex() const { return fmt::format("{:016x}", value_); }

 private:
  void add(std::uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001B3U; }
  std::uint64_t value_ = 0xCBF29CE484222325U;
};

inline std::string hash_of(std::string_view text) {
  Hash hash;
  hash.add(text);
  return hash.hex();
}

inline bool is_surrogate(char32_t c) {
  return c >= 0xD800 && c < 0xE000;
}

}  // namespace attnctl::test

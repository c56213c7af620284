#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace attnctl {

/// A hash of a token or a piece: eight bytes at a time.
[[nodiscard]] inline std::uint64_t hash_of(std::string_view bytes) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
  constexpr std::uint64_t kOther = 0xD6E8FEB86659FD93;
  const auto mixed = [](std::uint64_t a, std::uint64_t b) {
    // __extension__: ISO C++ has no 128-bit integer.
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
  };
  std::uint64_t hash = bytes.size() * kOdd;
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = mixed(hash ^ word ^ kOther, kOdd);
    bytes.remove_prefix(8);
  }
  std::uint64_t rest = 0;
  for (const char c : bytes) rest = rest << 8U | static_cast<unsigned char>(c);
  return mixed(hash ^ rest, kOther);
}

}  // namespace attnctl

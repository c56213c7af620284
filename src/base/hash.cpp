#include "base/hash.hpp"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace attnctl {

std::uint64_t content_hash(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

std::uint64_t content_hash(std::string_view text, std::uint64_t seed) {
  return content_hash(std::as_bytes(std::span(text)), seed);
}

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace attnctl

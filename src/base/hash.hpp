#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace attnctl {

/// Returns the XXH64 hash (Collet 2012), which identifies contents. It is not cryptographic: equal hashes can
/// be forged.
[[nodiscard]] std::uint64_t content_hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);
[[nodiscard]] std::uint64_t content_hash(std::string_view text, std::uint64_t seed = 0);

/// Returns a hash as files and messages show it: 16 hexadecimal digits.
[[nodiscard]] std::string hash_text(std::uint64_t hash);

}  // namespace attnctl

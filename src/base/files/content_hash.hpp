#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace attnctl {

/// XXH64 (Collet 2012, the specification of xxHash): tells contents apart, and is no protection against
/// somebody who wants two to look alike.
[[nodiscard]] std::uint64_t content_hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);
[[nodiscard]] std::uint64_t content_hash(std::string_view text, std::uint64_t seed = 0);

/// A hash as files and messages show it: 16 hexadecimal digits.
[[nodiscard]] std::string hash_text(std::uint64_t hash);

}  // namespace attnctl

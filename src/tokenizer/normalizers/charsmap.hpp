#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/normalizers/normalizer.hpp"

namespace attnctl {

/// A precompiled charsmap of SentencePiece: strings and what replaces them. Little-endian: the size of a trie
/// in bytes (32 bits), the trie's units (32 bits each), then the replacements, each ended by NUL. A unit's
/// bits: 0-7 label, 8 has a leaf below, 9 offset in units of 256, 10-30 offset to its children; a leaf's bits
/// 0-30 are where its replacement begins.
class Charsmap {
 public:
  /// Reads it from the base64 that tokenizer.json has. Throws Error(bad_input) at `where`.
  Charsmap(const PartConfig& where, std::string_view base64);

  /// What replaces the shortest beginning of `text` that is in the map; nullopt where none is. Throws
  /// Error(bad_input) where the trie leads out of itself.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view text) const;

 private:
  [[nodiscard]] std::uint32_t unit(std::size_t at) const;
  [[noreturn]] void damaged() const;

  std::string place_;  // file and pointer, for errors
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

/// Precompiled: a charsmap applied to each extended grapheme cluster, or to its characters.
[[nodiscard]] NormalizerPtr make_precompiled(const PartConfig& config);

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/parts/part_config.hpp"

namespace attnctl {

/// A precompiled charsmap of SentencePiece: a map from strings to replacements. Layout (little-endian): the
/// size of a trie in bytes (32 bits), the units of the trie (32 bits each), then the replacements, each with
/// a final NUL. Bits of a unit: 0-7 label, 8 has a leaf, 9 offset in units of 256, 10-30 offset to its
/// children. Bits 0-30 of a leaf: begin of its replacement.
class Charsmap {
 public:
  /// Reads a string of base64, or bytes. Throws Error(bad_input) at `where`.
  explicit Charsmap(const PartConfig& where);

  /// Returns the replacement of the shortest prefix of `text` that is in the map; nullopt if there is none.
  /// Throws Error(bad_input) if an offset is outside of the file.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view text) const;

 private:
  [[nodiscard]] std::uint32_t unit(std::size_t at) const;
  [[noreturn]] void damaged() const;

  std::string place_;  // file and pointer, for errors
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace attnctl

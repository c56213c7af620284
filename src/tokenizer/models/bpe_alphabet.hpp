#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/models/token_table.hpp"

namespace attnctl {

/// The tokens that merging begins with: one a character.
class BpeAlphabet {
 public:
  /// `vocabulary` must outlive this.
  explicit BpeAlphabet(const TokenTable& vocabulary);

  /// The id of a character, whose bytes are given as well; -1 where the vocabulary has none.
  [[nodiscard]] std::int32_t find(char32_t character, std::string_view bytes) const {
    return character < ids_.size() ? ids_[character] : vocabulary_->find(bytes);
  }
  /// Is there a token for any byte?
  [[nodiscard]] bool has_bytes() const;
  /// The id of the token <0xNN> of a byte; -1 for none.
  [[nodiscard]] std::int32_t byte(char value) const { return bytes_[static_cast<unsigned char>(value)]; }

 private:
  const TokenTable* vocabulary_;
  std::vector<std::int32_t> ids_;  // [code points of the BMP]
  std::array<std::int32_t, 256> bytes_{};
};

/// The ids of <0x00> to <0xFF>; -1 for those that are not there.
[[nodiscard]] std::array<std::int32_t, 256> byte_tokens(const TokenTable& vocabulary);

}  // namespace attnctl

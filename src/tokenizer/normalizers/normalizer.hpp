#pragma once

#include <cstddef>

#include "tokenizer/part_config.hpp"
#include "tokenizer/piece_text.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {

/// Returns the normalizer that a part of tokenizer.json describes. Throws Error(bad_input).
[[nodiscard]] TextStep make_normalizer(const PartConfig& config);

/// BertNormalizer: clean_text, handle_chinese_chars, strip_accents and lowercase, in this order.
[[nodiscard]] TextStep make_bert_normalizer(const PartConfig& config);
/// Precompiled: a SentencePiece charsmap.
[[nodiscard]] TextStep make_precompiled(const PartConfig& config);

/// Finds the origins of changed characters, from left to right in one piece.
class OriginCursor {
 public:
  OriginCursor(const PieceText& text, const PieceText::Piece& piece)
      : text_(text), piece_(piece), at_(piece.begin) {}

  [[nodiscard]] std::size_t at() const { return at_; }  // byte of the text
  void move_to(std::size_t at) { at_ = at; }

  /// Returns the origin of the next ChangedCharacter and skips the characters that it replaces.
  TextRange take(int change) {
    if (change > 0) return at_ == piece_.begin ? text_.origin_before(piece_) : text_.origin()[at_ - 1];
    const TextRange origin = text_.origin()[at_ < piece_.end ? at_ : piece_.end - std::size_t{1}];
    for (int replaced = 1 - change; replaced > 0 && at_ < piece_.end; --replaced) {
      unicode::next(text_.text(), at_);
    }
    return origin;
  }

 private:
  const PieceText& text_;
  const PieceText::Piece& piece_;
  std::size_t at_;
};

}  // namespace attnctl

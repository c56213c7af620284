#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tokenizer/models/piece_text.hpp"
#include "tokenizer/unicode/normal_form.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {

/// Where a character comes from that is put before all others of a piece.
inline TextRange before_all(const PieceText& text, const PieceText::Piece& piece) {
  const std::uint32_t begin = text.origin()[piece.begin].begin;
  return {begin, begin};
}

inline bool is_ascii(char byte) {
  return static_cast<unsigned char>(byte) < 0x80;
}

/// The end of the bytes from `begin` on that are ASCII.
inline std::size_t ascii_end(std::string_view text, std::size_t begin, std::size_t end) {
  while (begin < end && is_ascii(text[begin])) ++begin;
  return begin;
}

/// Gives changed characters their origins in the characters of a piece that they take up, in order.
class OriginCursor {
 public:
  OriginCursor(const PieceText& text, const PieceText::Piece& piece)
      : text_(text), piece_(piece), at_(piece.begin) {}

  [[nodiscard]] std::size_t at() const { return at_; }
  void move_to(std::size_t at) { at_ = at; }

  TextRange take(int change) {
    if (change > 0) return at_ == piece_.begin ? before_all(text_, piece_) : text_.origin()[at_ - 1];
    const TextRange origin = text_.origin()[at_ < piece_.end ? at_ : piece_.end - std::size_t{1}];
    for (int taken = 1 - change; taken > 0 && at_ < piece_.end; --taken) unicode::next(text_.text(), at_);
    return origin;
  }

 private:
  const PieceText& text_;
  const PieceText::Piece& piece_;
  std::size_t at_;  // byte of the text
};

}  // namespace attnctl

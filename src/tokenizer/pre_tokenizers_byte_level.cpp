#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tokenizer/byte_level.hpp"
#include "tokenizer/pre_tokenizer_parts.hpp"
#include "tokenizer/unicode.hpp"

namespace attnctl {
namespace {

enum class Kind : std::uint8_t { letter, number, white_space, other };

Kind kind_of(char32_t c) {
  const std::uint16_t bits = unicode::classes()(c);
  if ((bits & unicode::regex_letter) != 0) return Kind::letter;
  if ((bits & unicode::regex_number) != 0) return Kind::number;
  return (bits & unicode::white_space) != 0 ? Kind::white_space : Kind::other;
}

/// Where the run of one kind that holds byte `i` ends.
std::size_t end_of_run(std::string_view text, std::size_t i, Kind kind) {
  while (i < text.size()) {
    std::size_t behind = i;
    if (kind_of(unicode::next(text, behind)) != kind) break;
    i = behind;
  }
  return i;
}

std::size_t end_of_contraction(std::string_view text, std::size_t i) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.substr(i).starts_with(ending)) return i + ending.size();
  }
  return i;
}

/// White space from `i` on, of which the last character is left to the word behind it.
std::size_t end_of_white_space(std::string_view text, std::size_t i) {
  const std::size_t end = end_of_run(text, i, Kind::white_space);
  if (end == text.size()) return end;
  std::size_t last = end;
  unicode::previous(text, last);
  return last > i ? last : end;
}

/// Where the match of
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// at byte `i` ends: there is one at every place.
std::size_t end_of_word(std::string_view text, std::size_t i) {
  if (text[i] == '\'') {
    const std::size_t end = end_of_contraction(text, i);
    if (end > i) return end;
  }
  std::size_t word = i + (text[i] == ' ' ? 1U : 0U);
  if (word < text.size()) {
    std::size_t behind = word;
    const Kind kind = kind_of(unicode::next(text, behind));
    if (kind != Kind::white_space) return end_of_run(text, behind, kind);
  }
  return end_of_white_space(text, i);
}

void cut_words(std::string_view text, PieceText::Cuts& cuts) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = end_of_word(text, begin);
    cuts.add(begin, end);
    begin = end;
  }
}

void prepend_space(PieceText& text) {
  text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
    if (!text.text(piece).starts_with(' ')) output.put(" ", text.origin()[piece.begin]);
    output.copy(piece.begin, piece.end);
  });
}

/// Writes each byte as its character; runs that stand for themselves are copied.
void write_bytes(PieceText& text) {
  text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
    const std::string_view all = text.text();
    for (std::size_t i = piece.begin; i < piece.end;) {
      const std::size_t begin = i;
      while (i < piece.end && all[i] > 0x20 && all[i] < 0x7F) ++i;
      if (i > begin) output.copy(begin, i);
      if (i == piece.end) break;
      output.put(byte_level::kCharacters[static_cast<unsigned char>(all[i])].view(), text.origin()[i]);
      ++i;
    }
  });
}

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool prefix_space, bool words) : prefix_space_(prefix_space), words_(words) {}

  void cut(PieceText& text) const override {
    if (prefix_space_) prepend_space(text);
    if (words_) {
      text.cut([](const PieceText::Piece& /*piece*/, std::string_view piece_text, PieceText::Cuts& cuts) {
        cut_words(piece_text, cuts);
      });
    }
    write_bytes(text);
  }

 private:
  bool prefix_space_;
  bool words_;
};

}  // namespace

PreTokenizerPtr make_byte_level(const PartConfig& config) {
  (void)config.boolean("trim_offsets");  // that of the post-processor counts
  return std::make_unique<const ByteLevelPreTokenizer>(config.boolean("add_prefix_space"),
                                                       config.boolean("use_regex", true));
}

}  // namespace attnctl

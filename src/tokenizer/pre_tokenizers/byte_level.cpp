#include "tokenizer/pre_tokenizers/byte_level.hpp"

#include <cstddef>
#include <string_view>

#include "tokenizer/regex/word_cutter.hpp"

namespace attnctl::byte_level {
namespace {

void prepend_space(PieceText& text) {
  text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
    if (!text.text(piece).starts_with(' ')) output.put(" ", text.origin()[piece.begin]);
    output.copy(piece.begin, piece.end);
  });
}

}  // namespace

void write(PieceText& text) {
  text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
    const std::string_view all = text.text();
    for (std::size_t i = piece.begin; i < piece.end;) {
      const std::size_t begin = i;
      while (i < piece.end && all[i] > 0x20 && all[i] < 0x7F) ++i;  // written as themselves
      if (i > begin) output.copy(begin, i);
      if (i == piece.end) break;
      output.put(kCharacters[static_cast<unsigned char>(all[i])].view(), text.origin()[i]);
      ++i;
    }
  });
}

TextStep make_pre_tokenizer(const PartConfig& config) {
  (void)config.boolean("trim_offsets");  // has no effect here, but must be there
  return [prefix_space = config.boolean("add_prefix_space"), cuts_words = config.boolean("use_regex", true),
          cutter = WordCutter(WordRules())](PieceText& text) {
    if (prefix_space) prepend_space(text);
    if (cuts_words) {
      text.cut([&](std::string_view piece, PieceText::Cuts& cuts) {
        for (std::size_t begin = 0; begin < piece.size();) {
          const std::size_t end = cutter.end(piece, begin);
          cuts.add(begin, end);
          begin = end;
        }
      });
    }
    write(text);
  };
}

}  // namespace attnctl::byte_level

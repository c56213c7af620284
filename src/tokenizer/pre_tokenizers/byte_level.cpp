#include "tokenizer/pre_tokenizers/byte_level.hpp"

#include <cstddef>
#include <string_view>

#include "tokenizer/models/piece_text.hpp"

namespace attnctl::byte_level {

void write(PieceText& text) {
  text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
    const std::string_view all = text.text();
    for (std::size_t i = piece.begin; i < piece.end;) {
      const std::size_t begin = i;
      // What stands for itself is copied in runs.
      while (i < piece.end && all[i] > 0x20 && all[i] < 0x7F) ++i;
      if (i > begin) output.copy(begin, i);
      if (i == piece.end) break;
      output.put(kCharacters[static_cast<unsigned char>(all[i])].view(), text.origin()[i]);
      ++i;
    }
  });
}

}  // namespace attnctl::byte_level

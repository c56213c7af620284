#include <cstddef>
#include <string_view>

#include "tokenizer/pre_tokenizers/byte_level.hpp"
#include "tokenizer/pre_tokenizers/pre_tokenizer_parts.hpp"
#include "tokenizer/pre_tokenizers/word_cutter.hpp"

namespace attnctl {
namespace {

void prepend_space(PieceText& text) {
  text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
    if (!text.text(piece).starts_with(' ')) output.put(" ", text.origin()[piece.begin]);
    output.copy(piece.begin, piece.end);
  });
}

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool prefix_space, bool words) : prefix_space_(prefix_space), words_(words) {}

  void cut(PieceText& text) const override {
    if (prefix_space_) prepend_space(text);
    if (words_) {
      text.cut([this](const PieceText::Piece& /*piece*/, std::string_view piece_text, PieceText::Cuts& cuts) {
        for (std::size_t begin = 0; begin < piece_text.size();) {
          const std::size_t end = cutter_.end(piece_text, begin);
          cuts.add(begin, end);
          begin = end;
        }
      });
    }
    byte_level::write(text);
  }

 private:
  bool prefix_space_;
  bool words_;
  WordCutter cutter_{WordRules()};  // by the expression of GPT-2
};

}  // namespace

PreTokenizerPtr make_byte_level(const PartConfig& config) {
  (void)config.boolean("trim_offsets");  // that of the post-processor counts
  return std::make_unique<const ByteLevelPreTokenizer>(config.boolean("add_prefix_space"),
                                                       config.boolean("use_regex", true));
}

}  // namespace attnctl

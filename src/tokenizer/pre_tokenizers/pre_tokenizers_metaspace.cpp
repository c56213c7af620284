#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "tokenizer/pre_tokenizers/pre_tokenizer_parts.hpp"

namespace attnctl {
namespace {

enum class Prepend { always, first, never };

/// Writes spaces as a visible character, puts one before pieces, and cuts before each.
class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string mark, Prepend prepend, bool split)
      : mark_(std::move(mark)), prepend_(prepend), split_(split) {}

  void cut(PieceText& text) const override {
    text.rewrite(
        [&](const PieceText::Piece& piece, PieceText::Output& output) { mark(text, piece, output); });
    if (!split_) return;
    text.cut([this](const PieceText::Piece& /*piece*/, std::string_view piece_text, PieceText::Cuts& cuts) {
      std::size_t begin = 0;
      for (std::size_t end = 0; begin < piece_text.size(); begin = end) {
        end = std::min(piece_text.find(mark_, begin + 1), piece_text.size());
        cuts.add(begin, end);
      }
    });
  }

 private:
  [[nodiscard]] bool prepends(const PieceText& text, const PieceText::Piece& piece) const {
    const std::string_view piece_text = text.text(piece);
    if (prepend_ == Prepend::never || piece_text.starts_with(' ') || piece_text.starts_with(mark_))
      return false;
    return prepend_ == Prepend::always || text.origin()[piece.begin].begin == 0;
  }

  void mark(const PieceText& text, const PieceText::Piece& piece, PieceText::Output& output) const {
    const std::string_view piece_text = text.text(piece);
    if (prepends(text, piece)) output.put(mark_, text.origin()[piece.begin]);
    for (std::size_t begin = 0; begin < piece_text.size();) {
      const std::size_t space = std::min(piece_text.find(' ', begin), piece_text.size());
      output.copy(piece.begin + begin, piece.begin + space);
      if (space < piece_text.size()) output.put(mark_, text.origin()[piece.begin + space]);
      begin = space + 1;
    }
  }

  std::string mark_;
  Prepend prepend_;
  bool split_;
};

Prepend read_prepend(const PartConfig& config) {
  struct Row {
    std::string_view name;
    Prepend prepend;
  };
  constexpr Row kRows[] = {{"first", Prepend::first}, {"never", Prepend::never}, {"always", Prepend::always}};
  const std::string name = config.string("prepend_scheme", "always");
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    // Older files say whether there is a prefix at all; then both must agree.
    if (!config.boolean("add_prefix_space", true) && row.prepend != Prepend::never) {
      config.refuse("add_prefix_space",
                    "false contradicts the prepend_scheme \"" + name + "\"; need \"never\"");
    }
    return row.prepend;
  }
  constexpr std::string_view kNames[] = {"first", "never", "always"};
  config.unsupported("prepend_scheme", name, kNames);
}

}  // namespace

PreTokenizerPtr make_metaspace(const PartConfig& config) {
  std::string mark = read_character(config, "replacement");
  return std::make_unique<const Metaspace>(std::move(mark), read_prepend(config),
                                           config.boolean("split", true));
}

}  // namespace attnctl

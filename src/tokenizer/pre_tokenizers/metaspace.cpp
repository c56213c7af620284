#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "tokenizer/pre_tokenizers/pre_tokenizer.hpp"

namespace attnctl {
namespace {

enum class Prepend { first, never, always };

/// Replaces spaces by a visible mark, prepends one to pieces, and cuts before each mark.
class Metaspace {
 public:
  Metaspace(std::string mark, Prepend prepend, bool split)
      : mark_(std::move(mark)), prepend_(prepend), split_(split) {}

  void operator()(PieceText& text) const {
    text.rewrite(
        [&](const PieceText::Piece& piece, PieceText::Output& output) { replace(text, piece, output); });
    if (!split_) return;
    text.cut([this](std::string_view piece, PieceText::Cuts& cuts) {
      std::size_t begin = 0;
      for (std::size_t end = 0; begin < piece.size(); begin = end) {
        end = std::min(piece.find(mark_, begin + 1), piece.size());
        cuts.add(begin, end);
      }
    });
  }

 private:
  [[nodiscard]] bool prepends(const PieceText& text, const PieceText::Piece& piece) const {
    const std::string_view bytes = text.text(piece);
    if (prepend_ == Prepend::never || bytes.starts_with(' ') || bytes.starts_with(mark_)) return false;
    return prepend_ == Prepend::always || text.origin()[piece.begin].begin == 0;
  }

  void replace(const PieceText& text, const PieceText::Piece& piece, PieceText::Output& output) const {
    const std::string_view bytes = text.text(piece);
    if (prepends(text, piece)) output.put(mark_, text.origin()[piece.begin]);
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t space = std::min(bytes.find(' ', begin), bytes.size());
      output.copy(piece.begin + begin, piece.begin + space);
      if (space < bytes.size()) output.put(mark_, text.origin()[piece.begin + space]);
      begin = space + 1;
    }
  }

  std::string mark_;
  Prepend prepend_;
  bool split_;
};

Prepend read_prepend(const PartConfig& config) {
  constexpr std::string_view kNames[] = {"first", "never", "always"};  // in the order of Prepend
  const std::string name = config.string("prepend_scheme", "always");
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) config.unsupported("prepend_scheme", name, kNames);
  const auto prepend = static_cast<Prepend>(found - std::begin(kNames));
  // Older files have add_prefix_space, which must agree.
  if (!config.boolean("add_prefix_space", true) && prepend != Prepend::never) {
    config.refuse("add_prefix_space",
                  "false contradicts the prepend_scheme \"" + name + "\"; need \"never\"");
  }
  return prepend;
}

}  // namespace

TextStep make_metaspace(const PartConfig& config) {
  std::string mark = read_character(config, "replacement");
  return Metaspace(std::move(mark), read_prepend(config), config.boolean("split", true));
}

}  // namespace attnctl

#include "tokenizer/normalizers/replace_normalizer.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/normalizers/rewriting.hpp"
#include "tokenizer/regex/regex.hpp"

namespace attnctl {
namespace {

/// A string, or a regular expression, that matches are looked for.
class Pattern {
 public:
  explicit Pattern(std::string text) : text_(std::move(text)) {}
  explicit Pattern(Regex regex) : regex_(std::move(regex)) {}

  void find_all(std::string_view text, std::vector<Regex::Match>& matches) const {
    if (regex_) return regex_->find_all(text, matches);
    matches.clear();
    for (std::size_t at = text.find(text_); at != std::string_view::npos;
         at = text.find(text_, at + text_.size())) {
      matches.emplace_back(at, at + text_.size());
    }
  }

 private:
  std::string text_;  // not empty where there is no regex
  std::optional<Regex> regex_;
};

class Replace final : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void normalize(PieceText& text) const override {
    thread_local std::vector<Regex::Match> matches;
    text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
      pattern_.find_all(text.text(piece), matches);
      std::size_t copied = piece.begin;
      for (const auto& [first, last] : matches) {
        const std::size_t begin = piece.begin + first;
        const std::size_t end = piece.begin + last;
        output.copy(copied, begin);
        // All that is new comes from the last character replaced; from the one before where nothing is.
        output.put(content_, end == piece.begin ? before_all(text, piece) : text.origin()[end - 1]);
        copied = end;
      }
      output.copy(copied, piece.end);
    });
  }

 private:
  Pattern pattern_;
  std::string content_;
};

Pattern read_pattern(const PartConfig& config) {
  const PartConfig pattern = config.object("pattern");
  if (pattern.node().size() == 1) {
    if (pattern.has("String")) {
      std::string text = pattern.string("String");
      // The empty string matches as the empty expression does: before each character, and behind all.
      if (text.empty()) return Pattern(Regex(pattern.at("String"), text));
      return Pattern(std::move(text));
    }
    if (pattern.has("Regex")) return Pattern(Regex(pattern.at("Regex"), pattern.string("Regex")));
  }
  config.refuse("pattern", R"(unsupported, supported: {"String": text}, {"Regex": expression})");
}

}  // namespace

NormalizerPtr make_replace(const PartConfig& config) {
  return std::make_unique<Replace>(read_pattern(config), config.string("content"));
}

}  // namespace attnctl

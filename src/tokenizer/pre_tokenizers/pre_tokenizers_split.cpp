#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/shown.hpp"
#include "tokenizer/pre_tokenizers/pre_tokenizer_parts.hpp"
#include "tokenizer/pre_tokenizers/split_behavior.hpp"
#include "tokenizer/regex/regex.hpp"
#include "tokenizer/unicode/unicode.hpp"

// Pre-tokenizers that cut where something is found.
namespace attnctl {
namespace {

using Matches = std::vector<Regex::Match>;

/// All places of a string, from the left; the empty string is at every character.
void find_string(std::string_view text, const std::string& string, Matches& matches) {
  matches.clear();
  if (string.empty()) {
    for (std::size_t i = 0; i < text.size(); unicode::next(text, i)) matches.emplace_back(i, i);
    return;
  }
  for (std::size_t i = text.find(string); i < text.size(); i = text.find(string, i + string.size())) {
    matches.emplace_back(i, i + string.size());
  }
}

class Split final : public PreTokenizer {
 public:
  struct Pattern {
    std::string string;
    std::optional<Regex> regex;  // else the string
  };

  Split(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void cut(PieceText& text) const override {
    Matches matches;
    text.cut([&](const PieceText::Piece& /*piece*/, std::string_view piece_text, PieceText::Cuts& cuts) {
      if (pattern_.regex) {
        pattern_.regex->find_all(piece_text, matches);
      } else {
        find_string(piece_text, pattern_.string, matches);
      }
      Splitter splitter(behavior_, cuts);
      std::size_t done = 0;
      for (const auto& [begin, end] : matches) {
        if (done < begin) splitter.add(done, begin, invert_);
        splitter.add(begin, end, !invert_);
        done = end;
      }
      if (done < piece_text.size()) splitter.add(done, piece_text.size(), invert_);
      splitter.finish();
    });
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

Split::Pattern read_pattern(const PartConfig& config) {
  const PartConfig pattern = config.object("pattern");
  if (pattern.node().size() == 1) {
    const std::string& kind = pattern.node().begin().key();
    if (kind == "String") return {pattern.string("String"), std::nullopt};
    if (kind == "Regex") {
      const std::string regex = pattern.string("Regex");
      // The same as the empty string, and ICU takes no empty pattern.
      if (regex.empty()) return {{}, std::nullopt};
      return {{}, Regex(pattern.at("Regex"), regex)};
    }
  }
  config.refuse("pattern", "expected an object with String or Regex alone");
}

/// Cuts at single characters of a kind.
template <typename IsMatch>
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(IsMatch is_match, SplitBehavior behavior) : is_match_(is_match), behavior_(behavior) {}

  void cut(PieceText& text) const override {
    text.cut([this](const PieceText::Piece& /*piece*/, std::string_view piece_text, PieceText::Cuts& cuts) {
      Splitter splitter(behavior_, cuts);
      std::size_t gap = 0;
      for (std::size_t i = 0; i < piece_text.size();) {
        const std::size_t begin = i;
        if (!is_match_(unicode::next(piece_text, i))) continue;
        if (gap < begin) splitter.add(gap, begin, false);
        splitter.add(begin, i, true);
        gap = i;
      }
      if (gap < piece_text.size()) splitter.add(gap, piece_text.size(), false);
      splitter.finish();
    });
  }

 private:
  IsMatch is_match_;
  SplitBehavior behavior_;
};

template <typename IsMatch>
PreTokenizerPtr split_at(IsMatch is_match, SplitBehavior behavior) {
  return std::make_unique<const CharacterSplit<IsMatch>>(is_match, behavior);
}

}  // namespace

SplitBehavior read_split_behavior(const PartConfig& config, std::string_view key,
                                  const SplitBehavior* otherwise) {
  constexpr std::string_view names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};  // in the order of the enumeration
  if (otherwise != nullptr && !config.has(key)) return *otherwise;
  const std::string name = config.string(key);
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) config.unsupported(key, name, names);
  return static_cast<SplitBehavior>(found - std::begin(names));
}

PreTokenizerPtr make_split(const PartConfig& config) {
  Split::Pattern pattern = read_pattern(config);
  return std::make_unique<const Split>(std::move(pattern), read_split_behavior(config, "behavior"),
                                       config.boolean("invert"));
}

PreTokenizerPtr make_punctuation(const PartConfig& config) {
  constexpr SplitBehavior otherwise = SplitBehavior::isolated;
  return split_at([](char32_t c) { return unicode::is_bert_punctuation(c); },
                  read_split_behavior(config, "behavior", &otherwise));
}

PreTokenizerPtr make_digits(const PartConfig& config) {
  return split_at([](char32_t c) { return unicode::is_number(c); },
                  config.boolean("individual_digits") ? SplitBehavior::isolated : SplitBehavior::contiguous);
}

PreTokenizerPtr make_character_delimiter(const PartConfig& config) {
  const std::string delimiter = read_character(config, "delimiter");
  std::size_t i = 0;
  const char32_t wanted = unicode::next(delimiter, i);
  return split_at([wanted](char32_t c) { return c == wanted; }, SplitBehavior::removed);
}

}  // namespace attnctl

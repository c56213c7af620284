#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/pre_tokenizers/pre_tokenizer.hpp"
#include "tokenizer/regex/regex.hpp"
#include "tokenizer/unicode/unicode.hpp"

// Pre-tokenizers that cut at matches.
namespace attnctl {
namespace {

/// What happens to the matches.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

SplitBehavior read_behavior(const PartConfig& config) {
  constexpr std::string_view kNames[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                         "Contiguous"};  // in the order of SplitBehavior
  const std::string name = config.string("behavior");
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) config.unsupported("behavior", name, kNames);
  return static_cast<SplitBehavior>(found - std::begin(kNames));
}

/// Takes the matches and gaps of a text in order and adds the resulting pieces.
class Splitter {
 public:
  Splitter(SplitBehavior behavior, PieceText::Cuts& cuts) : behavior_(behavior), cuts_(cuts) {}

  void add(std::size_t begin, std::size_t end, bool is_match) {
    if (!joins(is_match)) {
      finish();
      begin_ = begin;
      dropped_ = is_match && behavior_ == SplitBehavior::removed;
      open_ = true;
    }
    end_ = end;
    after_match_ = is_match;
  }

  /// Adds the last piece.
  void finish() {
    if (open_ && !dropped_) cuts_.add(begin_, end_);
    open_ = false;
  }

 private:
  /// Returns whether the next match or gap joins the open piece.
  [[nodiscard]] bool joins(bool is_match) const {
    if (!open_) return false;
    switch (behavior_) {
      case SplitBehavior::merged_with_previous:
        return is_match && !after_match_;
      case SplitBehavior::merged_with_next:
        return !is_match && after_match_;
      case SplitBehavior::contiguous:
        return is_match == after_match_;
      case SplitBehavior::removed:
      case SplitBehavior::isolated:
        break;
    }
    return false;
  }

  SplitBehavior behavior_;
  PieceText::Cuts& cuts_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool open_ = false;
  bool dropped_ = false;
  bool after_match_ = false;
};

/// Returns a step that cuts at single characters.
template <typename IsMatch>
TextStep split_at(IsMatch is_match, SplitBehavior behavior) {
  return [is_match, behavior](PieceText& text) {
    text.cut([&](std::string_view piece, PieceText::Cuts& cuts) {
      Splitter splitter(behavior, cuts);
      std::size_t gap = 0;
      for (std::size_t i = 0; i < piece.size();) {
        const std::size_t begin = i;
        if (!is_match(unicode::next(piece, i))) continue;
        if (gap < begin) splitter.add(gap, begin, false);
        splitter.add(begin, i, true);
        gap = i;
      }
      if (gap < piece.size()) splitter.add(gap, piece.size(), false);
      splitter.finish();
    });
  };
}

}  // namespace

TextStep make_split(const PartConfig& config) {
  return [pattern = read_pattern(config), behavior = read_behavior(config),
          invert = config.boolean("invert")](PieceText& text) {
    thread_local std::vector<Regex::Match> matches;
    text.cut([&](std::string_view piece, PieceText::Cuts& cuts) {
      pattern.find_all(piece, matches);
      Splitter splitter(behavior, cuts);
      std::size_t done = 0;
      for (const auto& [begin, end] : matches) {
        if (done < begin) splitter.add(done, begin, invert);
        splitter.add(begin, end, !invert);
        done = end;
      }
      if (done < piece.size()) splitter.add(done, piece.size(), invert);
      splitter.finish();
    });
  };
}

TextStep make_punctuation(const PartConfig& config) {
  const auto is_match = [](char32_t c) { return unicode::is(c, unicode::bert_punctuation); };
  return split_at(is_match, config.has("behavior") ? read_behavior(config) : SplitBehavior::isolated);
}

TextStep make_digits(const PartConfig& config) {
  const auto is_match = [](char32_t c) { return unicode::is(c, unicode::number); };
  return split_at(is_match,
                  config.boolean("individual_digits") ? SplitBehavior::isolated : SplitBehavior::contiguous);
}

TextStep make_character_delimiter(const PartConfig& config) {
  const std::string delimiter = read_character(config, "delimiter");
  std::size_t i = 0;
  const char32_t wanted = unicode::next(delimiter, i);
  return split_at([wanted](char32_t c) { return c == wanted; }, SplitBehavior::removed);
}

}  // namespace attnctl

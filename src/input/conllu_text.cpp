#include "input/conllu_text.hpp"

#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {
namespace {

/// A place in a text, in bytes and in code points.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }

  /// The range of `form`, which the text goes on with; nullopt where it does not.
  std::optional<TextRange> take(std::string_view form) {
    if (!rest_.starts_with(form)) return std::nullopt;
    const std::uint32_t begin = place_;
    rest_.remove_prefix(form.size());
    place_ += static_cast<std::uint32_t>(count_code_points(form));
    return TextRange{begin, place_};
  }

  /// Passes white space; false where there is none.
  bool skip_white_space() {
    const std::uint32_t before = place_;
    while (!rest_.empty()) {
      const std::string_view character = rest_.substr(0, utf8_sequence_length(rest_));
      if (!is_white_space(utf8_code_point(character))) break;
      rest_.remove_prefix(character.size());
      ++place_;
    }
    return place_ > before;
  }

 private:
  std::string_view rest_;
  std::uint32_t place_ = 0;
};

std::string joined(std::span<const Surface> surfaces) {
  std::string text;
  for (std::size_t i = 0; i < surfaces.size(); ++i) {
    text += surfaces[i].form;
    if (surfaces[i].space_after && i + 1 < surfaces.size()) text += ' ';
  }
  return text;
}

/// Shares the characters of a surface among its words.
void share(const Surface& surface, TextRange range, ConlluSentence& sentence) {
  std::string together;
  for (std::size_t w = surface.first; w <= surface.last; ++w) together += sentence.words[w].word.form;
  const bool adds_up = together == surface.form;
  for (std::size_t w = surface.first; w <= surface.last; ++w) {
    TextWord& word = sentence.words[w].word;
    word.range = range;
    if (!adds_up) continue;
    word.range.end = range.begin + static_cast<std::uint32_t>(count_code_points(word.form));
    range.begin = word.range.end;
  }
}

}  // namespace

std::optional<std::size_t> parse_id(std::string_view text) {
  if (text.starts_with('0')) return std::nullopt;
  const auto number = parse_number(text);
  return number && *number < std::numeric_limits<std::uint32_t>::max() ? number : std::nullopt;
}

void place_words(const std::optional<std::string>& text, std::span<const Surface> surfaces,
                 const std::string& file, ConlluSentence& sentence) {
  sentence.text = text ? *text : joined(surfaces);
  Cursor cursor(sentence.text);
  std::size_t multiword = 0;
  for (const Surface& surface : surfaces) {
    const auto range = cursor.take(surface.form);
    if (!range) {
      fail(Status::bad_input,
           "{}: line {}: FORM: got {} where the text goes on with {}; words and text must agree", file,
           surface.line, in_quotes(surface.form), in_quotes(cursor.rest()));
    }
    share(surface, *range, sentence);
    if (multiword < sentence.multiword.size() && sentence.multiword[multiword].first == surface.first) {
      sentence.multiword[multiword++].token.range = *range;
    }
    if (surface.space_after && !cursor.skip_white_space() && !cursor.at_end()) {
      fail(Status::bad_input, "{}: line {}: no space follows {} in the text, need SpaceAfter=No", file,
           surface.line, in_quotes(surface.form));
    }
  }
  cursor.skip_white_space();
  if (!cursor.at_end()) {
    fail(Status::bad_input, "{}: line {}: the text goes on with {} behind the last word", file,
         surfaces.back().line, in_quotes(cursor.rest()));
  }
}

}  // namespace attnctl

#include "input/words.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {

bool is_white_space(char32_t point) {
  return (point >= 0x09 && point <= 0x0D) || point == 0x20 || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
         point == 0x202F || point == 0x205F || point == 0x3000;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::vector<TextWord> white_space_words(std::string_view text) {
  std::vector<TextWord> words;
  bool inside = false;
  std::uint32_t position = 0;
  for (std::size_t i = 0; i < text.size(); ++position) {
    const std::size_t length = std::max<std::size_t>(utf8_sequence_length(text.substr(i)), 1);
    const std::string_view character = text.substr(i, length);
    i += length;
    if (is_white_space(utf8_code_point(character))) {
      inside = false;
      continue;
    }
    if (!inside) words.push_back({{}, {position, position}});
    inside = true;
    words.back().form += character;
    words.back().range.end = position + 1;
  }
  return words;
}

std::pair<std::size_t, std::size_t> words_in(std::span<const TextWord> words, TextRange range) {
  const auto first = std::partition_point(
      words.begin(), words.end(), [&](const TextWord& word) { return word.range.end <= range.begin; });
  const auto last = std::partition_point(first, words.end(),
                                         [&](const TextWord& word) { return word.range.begin < range.end; });
  const auto begin = static_cast<std::size_t>(first - words.begin());
  const auto end = static_cast<std::size_t>(last - words.begin());
  return {begin, range.begin < range.end ? end : begin};
}

WordUnits word_units(const Sequence& sequence, const Vocabulary& vocabulary) {
  const std::size_t n = sequence.queries();
  if (sequence.tokens.size() != n || sequence.key_embeddings.rows() > 0) {
    fail(Status::bad_input, "--by-word: input \"{}\" has no tokens; give --text, or --ids with a vocabulary",
         escaped(sequence.id));
  }
  const bool known = sequence.words.size() == n;
  const auto words = known ? sequence.words : vocabulary.words(sequence.tokens, sequence.ids);
  WordUnits units;
  for (std::size_t i = 0; i < n; ++i) {
    const bool same = i > 0 && words[i].has_value() && words[i] == words[i - 1];
    if (!same) ++units.count;
    units.unit_of_token.push_back(units.count - 1);
  }
  return units;
}

Sequence pooled_sequence(const Sequence& sequence, const WordUnits& units, const Vocabulary& vocabulary) {
  Sequence pooled;
  pooled.id = sequence.id;
  pooled.text = sequence.text;
  pooled.text_pair = sequence.text_pair;
  pooled.truncated = sequence.truncated;
  pooled.units = units.count;
  pooled.tokens.resize(units.count);
  pooled.special.assign(units.count, 0);
  pooled.separator.assign(units.count, 0);
  const auto flag = [](const std::vector<std::uint8_t>& flags, std::size_t i) {
    return i < flags.size() ? flags[i] : std::uint8_t{0};
  };
  for (std::size_t i = 0; i < units.unit_of_token.size(); ++i) {
    const std::size_t unit = units.unit_of_token[i];
    const bool first = i == 0 || units.unit_of_token[i - 1] != unit;
    pooled.special[unit] |= flag(sequence.special, i);
    pooled.separator[unit] |= flag(sequence.separator, i);
    const std::optional<std::size_t> word = i < sequence.words.size() ? sequence.words[i] : std::nullopt;
    if (word && *word < sequence.word_texts.size()) {
      if (first) pooled.tokens[unit] = sequence.word_texts[*word];
    } else {
      pooled.tokens[unit] += vocabulary.plain(sequence.tokens[i]);
    }
  }
  for (std::size_t unit = 0; unit < units.count; ++unit) pooled.words.emplace_back(unit);
  pooled.word_texts = pooled.tokens;
  return pooled;
}

namespace {

bool equal_without_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

/// A candidate for a query: its text and its token positions.
struct NamedTokens {
  std::string text;
  std::vector<std::size_t> positions;
  std::string bare;  // without punctuation around it; may be empty
  std::vector<std::size_t> bare_positions;
};

std::vector<NamedTokens> token_groups(const Sequence& sequence) {
  std::vector<NamedTokens> groups;
  for (std::size_t i = 0; i < sequence.tokens.size(); ++i)
    groups.push_back({sequence.tokens[i], {i}, {}, {}});
  return groups;
}

/// Returns the words that the marks of the vocabulary define.
std::vector<NamedTokens> marked_words(const Sequence& sequence, const Vocabulary& vocabulary) {
  const auto words = vocabulary.words(sequence.tokens, sequence.ids);
  std::vector<NamedTokens> groups;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool first = i == 0 || !words[i].has_value() || words[i] != words[i - 1];
    if (first) groups.emplace_back();
    groups.back().text += vocabulary.plain(sequence.tokens[i]);
    groups.back().positions.push_back(i);
  }
  return groups;
}

/// Returns whether a code point is a letter or digit; ASCII and general Unicode punctuation are not.
bool is_word_character(char32_t point) {
  if (point < 0x80) return std::isalnum(static_cast<int>(point)) != 0;
  const bool punctuation =
      (point >= 0xA0 && point <= 0xBF && point != 0xAA && point != 0xB5 && point != 0xBA) ||
      (point >= 0x2000 && point <= 0x206F) || (point >= 0x3000 && point <= 0x3003) ||
      (point >= 0x3008 && point <= 0x301F);
  return !punctuation;
}

/// Returns the runs of word characters in a word, with their ranges in its code points.
std::vector<TextWord> word_parts(std::string_view word) {
  std::vector<TextWord> parts;
  bool inside = false;
  std::uint32_t place = 0;
  for (; !word.empty(); ++place) {
    const std::string_view character = word.substr(0, std::max<std::size_t>(utf8_sequence_length(word), 1));
    word.remove_prefix(character.size());
    const bool in_word = is_word_character(utf8_code_point(character));
    if (in_word && !inside) parts.push_back({{}, {place, place}});
    if (in_word) {
      parts.back().form += character;
      parts.back().range.end = place + 1;
    }
    inside = in_word;
  }
  return parts;
}

/// The words of a text and their tokens.
class TextWords {
 public:
  explicit TextWords(const Sequence& sequence) : sequence_(sequence), tokens_(sequence.word_texts.size()) {
    for (std::size_t i = 0; i < sequence.words.size(); ++i) {
      if (sequence.words[i]) tokens_[*sequence.words[i]].push_back(i);
    }
    for (const Sequence::SharedToken& shared : sequence.shared_tokens)
      tokens_[shared.word].push_back(shared.token);
    for (std::vector<std::size_t>& tokens : tokens_) std::sort(tokens.begin(), tokens.end());
  }

  [[nodiscard]] std::vector<NamedTokens> words() const {
    std::vector<NamedTokens> groups;
    for (std::size_t w = 0; w < tokens_.size(); ++w) {
      const std::string& form = sequence_.word_texts[w];
      NamedTokens& group = groups.emplace_back(NamedTokens{form, tokens_[w], {}, {}});
      const std::vector<TextWord> parts = word_parts(form);
      if (parts.empty()) continue;
      const TextRange range = {parts.front().range.begin, parts.back().range.end};
      group.bare = code_points(form, range);
      group.bare_positions = tokens_in(w, range);
    }
    return groups;
  }

  [[nodiscard]] std::vector<NamedTokens> parts() const {
    std::vector<NamedTokens> groups;
    for (std::size_t w = 0; w < tokens_.size(); ++w) {
      for (const TextWord& part : word_parts(sequence_.word_texts[w]))
        groups.push_back({part.form, tokens_in(w, part.range), {}, {}});
    }
    return groups;
  }

 private:
  static std::string code_points(std::string_view text, TextRange range) {
    std::string part;
    for (std::uint32_t place = 0; !text.empty() && place < range.end; ++place) {
      const std::string_view character = text.substr(0, std::max<std::size_t>(utf8_sequence_length(text), 1));
      if (place >= range.begin) part += character;
      text.remove_prefix(character.size());
    }
    return part;
  }

  /// Returns the tokens of a word that overlap a part of it; all of them if their offsets are unknown or the
  /// text does not contain the form (the "de" of "du").
  [[nodiscard]] std::vector<std::size_t> tokens_in(std::size_t word, TextRange part) const {
    if (sequence_.offsets.empty() || word >= sequence_.word_ranges.size()) return tokens_[word];
    const TextRange range = sequence_.word_ranges[word];
    if (range.end - range.begin != count_code_points(sequence_.word_texts[word])) return tokens_[word];
    std::vector<std::size_t> inside;
    for (const std::size_t token : tokens_[word]) {
      const TextRange at = sequence_.offsets[token];
      if (at.begin < range.begin + part.end && at.end > range.begin + part.begin) inside.push_back(token);
    }
    return inside;
  }

  const Sequence& sequence_;
  std::vector<std::vector<std::size_t>> tokens_;  // [words]
};

/// Returns the lists of candidates in the order of the search.
std::vector<std::vector<NamedTokens>> all_groups(const Sequence& sequence, const Vocabulary& vocabulary) {
  if (sequence.word_texts.empty()) return {marked_words(sequence, vocabulary), token_groups(sequence)};
  const TextWords words(sequence);
  return {words.words(), words.parts(), token_groups(sequence)};
}

}  // namespace

std::vector<std::size_t> find_word(const Sequence& sequence, const Vocabulary& vocabulary,
                                   std::string_view word) {
  if (const auto position = parse_number(word)) {
    if (*position < sequence.queries()) return {*position};
    return {};
  }
  std::size_t occurrence = 1;
  const std::size_t hash = word.rfind('#');
  if (hash != std::string_view::npos && hash > 0) {
    const auto number = parse_number(word.substr(hash + 1));
    if (number && *number > 0) {
      occurrence = *number;
      word = word.substr(0, hash);
    }
  }
  const std::vector<std::vector<NamedTokens>> lists = all_groups(sequence, vocabulary);
  using Same = std::function<bool(std::string_view, std::string_view)>;
  for (const Same& same : {Same(std::equal_to<>()), Same(equal_without_case)}) {
    for (const std::vector<NamedTokens>& groups : lists) {
      std::size_t seen = 0;
      for (const NamedTokens& group : groups) {
        const bool whole = same(group.text, word);
        const bool bare = !whole && !group.bare.empty() && same(group.bare, word);
        const std::vector<std::size_t>& positions = whole ? group.positions : group.bare_positions;
        // Words without tokens do not count.
        if ((whole || bare) && !positions.empty() && ++seen == occurrence) return positions;
      }
      if (seen > 0) return {};
    }
  }
  return {};
}

}  // namespace attnctl

#include "input/words.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::input {

namespace {

/// Returns the runs of characters for which belongs(code point) is true. The text must be valid UTF-8.
template <typename Belongs>
std::vector<TextWord> runs_of(std::string_view text, Belongs belongs) {
  std::vector<TextWord> runs;
  bool inside = false;
  std::uint32_t place = 0;
  for (std::size_t i = 0; i < text.size(); ++place) {
    const std::size_t begin = i;
    const bool continues = std::exchange(inside, belongs(tokenizer::unicode::next(text, i)));
    if (!inside) continue;
    if (!continues) runs.push_back({{}, {place, place}});
    runs.back().form.append(text, begin, i - begin);
    runs.back().range.end = place + 1;
  }
  return runs;
}

/// A word, a part of a word or a token that find_word() compares with the wanted word.
struct NamedTokens {
  std::string text;
  std::vector<std::size_t> positions;  // of the tokens of `text`
};

/// Returns the words according to Vocabulary::words. A token without a word is a separate group.
std::vector<NamedTokens> marked_words(const Sequence& sequence, const tokenizer::Vocabulary& vocabulary) {
  const auto words = vocabulary.words(sequence.tokens, sequence.ids);
  std::vector<NamedTokens> groups;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i == 0 || !words[i] || words[i] != words[i - 1]) groups.emplace_back();
    groups.back().text += vocabulary.plain(sequence.tokens[i]);
    groups.back().positions.push_back(i);
  }
  return groups;
}

/// Returns whether a code point is part of a word: a letter, mark or digit or, from U+2070 on, any character
/// except punctuation and spaces, for example an emoji.
bool is_word_character(char32_t point) {
  const std::uint16_t of = tokenizer::unicode::classes()(point);
  if ((of & (tokenizer::unicode::punctuation | tokenizer::unicode::white_space)) != 0) return false;
  return (of & tokenizer::unicode::word) != 0 || point >= 0x2070;
}

/// Returns the tokens of a word that overlap the range `part`, which counts code points from the beginning of
/// the word. Returns all tokens of the word if the tokens' offsets are unknown, or if the word's form is not
/// as long as the word's range in the text (as for the word "à" of "au").
std::vector<std::size_t> tokens_in(const Sequence& sequence, const std::vector<std::size_t>& tokens,
                                   std::size_t word, tokenizer::TextRange part) {
  if (sequence.offsets.empty() || word >= sequence.word_ranges.size()) return tokens;
  const tokenizer::TextRange range = sequence.word_ranges[word];
  if (range.end - range.begin != tokenizer::unicode::count_code_points(sequence.word_texts[word]))
    return tokens;
  std::vector<std::size_t> inside;
  for (const std::size_t token : tokens) {
    const tokenizer::TextRange at = sequence.offsets[token];
    if (at.begin < range.begin + part.end && at.end > range.begin + part.begin) inside.push_back(token);
  }
  return inside;
}

std::vector<std::vector<std::size_t>> tokens_of_words(const Sequence& sequence) {
  std::vector<std::vector<std::size_t>> tokens(sequence.word_texts.size());
  for (std::size_t i = 0; i < sequence.words.size(); ++i) {
    if (sequence.words[i]) tokens[*sequence.words[i]].push_back(i);
  }
  for (const Sequence::SharedToken& shared : sequence.shared_tokens)
    tokens[shared.word].push_back(shared.token);
  for (std::vector<std::size_t>& each : tokens) std::ranges::sort(each);
  return tokens;
}

/// Returns the lists that find_word() searches, in order: words with and without the punctuation around them,
/// parts of words, tokens. Leaves out the parts of words if the sequence has no word_texts.
std::vector<std::vector<NamedTokens>> all_groups(const Sequence& sequence,
                                                 const tokenizer::Vocabulary& vocabulary) {
  std::vector<NamedTokens> single;
  for (std::size_t i = 0; i < sequence.tokens.size(); ++i) single.push_back({sequence.tokens[i], {i}});
  if (sequence.word_texts.empty()) return {marked_words(sequence, vocabulary), single};
  const std::vector<std::vector<std::size_t>> tokens = tokens_of_words(sequence);
  std::vector<NamedTokens> words;
  std::vector<NamedTokens> parts;  // the parts of words between punctuation
  for (std::size_t w = 0; w < tokens.size(); ++w) {
    const std::string& form = sequence.word_texts[w];
    const auto tokens_of = [&](tokenizer::TextRange part) { return tokens_in(sequence, tokens[w], w, part); };
    const std::vector<TextWord> runs = runs_of(form, is_word_character);
    for (const TextWord& run : runs) parts.push_back({run.form, tokens_of(run.range)});
    words.push_back({form, tokens[w]});
    if (runs.empty()) continue;
    const std::size_t begin = form.find(runs.front().form);
    const std::size_t end = form.rfind(runs.back().form) + runs.back().form.size();
    if (end - begin < form.size())
      words.push_back(
          {form.substr(begin, end - begin), tokens_of({runs.front().range.begin, runs.back().range.end})});
  }
  return {words, parts, single};
}

}  // namespace

std::vector<TextWord> white_space_words(std::string_view text) {
  return runs_of(
      text, [](char32_t point) { return !tokenizer::unicode::is(point, tokenizer::unicode::white_space); });
}

std::pair<std::size_t, std::size_t> words_in(std::span<const TextWord> words, tokenizer::TextRange range) {
  const auto first = std::partition_point(
      words.begin(), words.end(), [&](const TextWord& word) { return word.range.end <= range.begin; });
  const auto last = std::partition_point(first, words.end(),
                                         [&](const TextWord& word) { return word.range.begin < range.end; });
  const auto begin = static_cast<std::size_t>(first - words.begin());
  const auto end = static_cast<std::size_t>(last - words.begin());
  return {begin, range.begin < range.end ? end : begin};
}

WordUnits word_units(const Sequence& sequence, const tokenizer::Vocabulary& vocabulary) {
  const std::size_t n = sequence.queries();
  if (sequence.tokens.size() != n || sequence.key_embeddings.rows() > 0) {
    fail(Status::bad_input,
         "--by-word: input \"{}\" has no token strings or has separate keys (--keys); give a text, or token "
         "ids and a model with a vocabulary",
         escaped(sequence.id));
  }
  const bool known = sequence.words.size() == n;
  const auto words = known ? sequence.words : vocabulary.words(sequence.tokens, sequence.ids);
  WordUnits units;
  for (std::size_t i = 0; i < n; ++i) {
    if (i == 0 || !words[i] || words[i] != words[i - 1]) ++units.count;
    units.unit_of_token.push_back(units.count - 1);
  }
  return units;
}

Sequence pooled_sequence(const Sequence& sequence, const WordUnits& units,
                         const tokenizer::Vocabulary& vocabulary) {
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

std::vector<std::size_t> find_word(const Sequence& sequence, const tokenizer::Vocabulary& vocabulary,
                                   std::string_view word) {
  if (const auto position = parse_number(word)) {
    if (*position < sequence.queries()) return {*position};
    return {};
  }
  std::size_t occurrence = 1;
  const std::size_t hash = word.rfind('#');
  if (hash != std::string_view::npos && hash > 0 && !vocabulary.id(word)) {
    const auto number = parse_number(word.substr(hash + 1));
    if (number && *number > 0) {
      occurrence = *number;
      word = word.substr(0, hash);
    }
  }
  const std::vector<std::vector<NamedTokens>> lists = all_groups(sequence, vocabulary);
  for (const bool ignores_case : {false, true}) {
    const auto same = [&](std::string_view text) {
      return ignores_case ? lower_case(text) == lower_case(word) : text == word;
    };
    for (const std::vector<NamedTokens>& groups : lists) {
      std::size_t seen = 0;
      for (const NamedTokens& group : groups) {
        // Words without tokens are not counted as occurrences.
        if (same(group.text) && !group.positions.empty() && ++seen == occurrence) return group.positions;
      }
      if (seen > 0) return {};
    }
  }
  return {};
}

TextPart find_in_text(const Sequence& sequence, std::string_view part) {
  TextPart found;
  for (const std::uint8_t index : {std::uint8_t{0}, std::uint8_t{1}}) {
    const std::optional<std::string>& text = index == 0 ? sequence.text : sequence.text_pair;
    const std::size_t place = text && !part.empty() ? text->find(part) : std::string::npos;
    if (place == std::string::npos || !found.positions.empty()) continue;
    const std::size_t begin = tokenizer::unicode::count_code_points(text->substr(0, place));
    const std::size_t end = begin + tokenizer::unicode::count_code_points(part);
    for (std::size_t i = 0; i < sequence.offsets.size(); ++i) {
      const tokenizer::TextRange at = sequence.offsets[i];
      if (at.begin >= end || at.end <= begin) continue;
      if (!sequence.text_index.empty() && sequence.text_index[i] != index) continue;
      found.positions.push_back(i);
      found.exact = found.exact && at.begin >= begin && at.end <= end;
    }
  }
  return found;
}

}  // namespace attnctl::input

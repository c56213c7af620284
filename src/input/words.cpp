#include "input/words.hpp"

#include <algorithm>
#include <cstdint>
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

}  // namespace attnctl

#include "input/word_units.hpp"

#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace attnctl {

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

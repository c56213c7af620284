#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "input/words.hpp"

namespace attnctl {
namespace {

const Vocabulary kVocabulary({"[CLS]", "play", "##ing", "the", "##atre", "[SEP]"}, {0, 5});

Sequence sequence_of(std::vector<std::int64_t> ids) {
  Sequence sequence;
  sequence.id = "x";
  for (const std::int64_t id : ids) {
    sequence.tokens.emplace_back(*kVocabulary.token(id));
    sequence.special.push_back(kVocabulary.is_special(id) ? 1 : 0);
    sequence.separator.push_back(kVocabulary.is_separator(id) ? 1 : 0);
  }
  sequence.ids = std::move(ids);
  return sequence;
}

TEST_CASE("words from the marks of the vocabulary") {
  const Sequence sequence = sequence_of({0, 1, 2, 3, 4, 1, 5});
  const WordUnits units = word_units(sequence, kVocabulary);
  CHECK(units.unit_of_token == std::vector<std::size_t>{0, 1, 1, 2, 2, 3, 4});
  CHECK(units.count == 5);
  const Sequence pooled = pooled_sequence(sequence, units, kVocabulary);
  CHECK(pooled.tokens == std::vector<std::string>{"[CLS]", "playing", "theatre", "play", "[SEP]"});
  CHECK(pooled.special == std::vector<std::uint8_t>{1, 0, 0, 0, 1});
  CHECK(pooled.separator == std::vector<std::uint8_t>{0, 0, 0, 0, 1});
  CHECK(pooled.queries() == 5);
  CHECK(pooled.keys() == 5);
}

TEST_CASE("words from Sequence::words, with white space as separate units") {
  Sequence sequence = sequence_of({0, 1, 3, 3, 2, 5});
  sequence.word_texts = {"play-the", "##ing"};
  sequence.words = {std::nullopt, 0, 0, std::nullopt, 1, std::nullopt};
  const WordUnits units = word_units(sequence, kVocabulary);
  CHECK(units.unit_of_token == std::vector<std::size_t>{0, 1, 1, 2, 3, 4});
  CHECK(pooled_sequence(sequence, units, kVocabulary).tokens ==
        std::vector<std::string>{"[CLS]", "play-the", "the", "##ing", "[SEP]"});
}

TEST_CASE("embeddings have no words") {
  Sequence sequence;
  sequence.embeddings = OwnedMatrix<float>(3, 2);
  CHECK_THROWS_WITH_AS((void)word_units(sequence, kVocabulary), doctest::Contains("has no tokens"), Error);
}

}  // namespace
}  // namespace attnctl

#include "study/measures/relations/syntax.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "study/measure.hpp"
#include "study/measures/measures.hpp"
#include "support/panels.hpp"

namespace attnctl::test {
namespace {

/// A sentence between two special tokens. The pieces of word w are tokens[w].
struct Planted {
  Sequence sequence;
  std::shared_ptr<ConlluSentence> annotation = std::make_shared<ConlluSentence>();
  std::vector<std::vector<std::size_t>> tokens;  // [words]
  [[nodiscard]] std::size_t n() const { return sequence.ids.size(); }
};

/// Returns a sentence with a random dependency tree, relations r0 to r2, and one to three pieces per word.
Planted planted(std::uint64_t seed) {
  Random random(7, seed);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random.next() % limit); };
  Planted made;
  const std::size_t words = 2 + below(9);
  const std::size_t root = below(words);
  made.sequence.words.emplace_back();
  for (std::size_t word = 0; word < words; ++word) {
    made.tokens.emplace_back();
    for (std::size_t pieces = 1 + below(3); pieces > 0; --pieces) {
      made.tokens.back().push_back(made.sequence.words.size());
      made.sequence.words.emplace_back(word);
    }
    // Builds a tree: the head of a word left of the root is to the word's right, and vice versa.
    const std::size_t head =
        word < root ? word + 1 + below(root - word) : root + below(std::max<std::size_t>(word - root, 1));
    ConlluWord& annotated = made.annotation->words.emplace_back();
    annotated.head = word == root ? 0U : static_cast<std::uint32_t>(head + 1);
    annotated.deprel = word == root ? "root" : "r" + std::to_string(word % 3) + ":sub";
  }
  made.sequence.words.emplace_back();
  made.sequence.ids.assign(made.sequence.words.size(), 5);
  made.sequence.special.assign(made.n(), 0);
  made.sequence.special.front() = made.sequence.special.back() = 1;
  made.sequence.id = std::to_string(seed);
  return made;
}

/// Returns the token to which all pieces of a word attend; 0 is the first special token.
using Target = std::size_t (*)(const Planted& in, std::size_t word);

std::size_t at_head(const Planted& in, std::size_t word) {
  const std::uint32_t head = *in.annotation->words[word].head;
  return head == 0 ? 0 : in.tokens[head - 1].back();
}
std::size_t at_next(const Planted& in, std::size_t word) {
  return word + 1 < in.tokens.size() ? in.tokens[word + 1].front() : 0;
}
std::size_t at_self(const Planted& in, std::size_t word) {
  return in.tokens[word].front();
}
const std::vector<Target> kHeads = {at_head, at_next, at_self};

struct Fixture {
  Model model = open_golden("bert");
  Vocabulary vocabulary;
  StudyShape shape;

  explicit Fixture(bool fold = false) {
    for (std::size_t head = 0; head < kHeads.size(); ++head)
      shape.heads.push_back({{0, head}, "0." + std::to_string(head), {}, 0, head});
    shape.fold_subtypes = fold;
  }
  [[nodiscard]] std::unique_ptr<Measure> measured(const std::vector<Planted>& sentences, std::uint64_t number,
                                                  std::size_t panel_rows) const;
};

std::unique_ptr<Measure> Fixture::measured(const std::vector<Planted>& sentences, std::uint64_t number,
                                           std::size_t panel_rows) const {
  CorpusBlock corpus;
  corpus.number = number;
  for (const Planted& each : sentences) {
    corpus.batch.sequences.push_back(each.sequence);
    corpus.annotations.push_back(each.annotation);
  }
  const StudyBlock block(model, vocabulary, corpus, shape);
  auto measure = make_syntax_measure(shape);
  measure->begin(block);
  for (std::size_t head = 0; head < kHeads.size(); ++head) {
    for (std::size_t s = 0; s < sentences.size(); ++s) {
      const Planted& in = sentences[s];
      std::vector<float> pattern(in.n() * in.n());
      pattern.front() = pattern.back() = 1;
      for (std::size_t word = 0; word < in.tokens.size(); ++word) {
        for (const std::size_t token : in.tokens[word]) pattern[token * in.n() + kHeads[head](in, word)] = 1;
      }
      for (std::size_t first = 0; first < in.n(); first += panel_rows) {
        const std::size_t rows = std::min(panel_rows, in.n() - first);
        AttentionPanel panel;
        panel.sequence = s;
        panel.head = head;
        panel.first_query = first;
        panel.pattern = {pattern.data() + first * in.n(), rows, in.n()};
        std::vector<PatternRow> shown;
        for (std::size_t r = 0; r < rows; ++r)
          shown.emplace_back(panel.pattern.row(r), first + r, block.marks(s));
        measure->panel({panel, head, shown, block.visible(s, 0)});
      }
    }
  }
  measure->end();
  return measure;
}

std::vector<Planted> sentences(std::uint64_t first, std::uint64_t count) {
  std::vector<Planted> made;
  for (std::uint64_t i = 0; i < count; ++i) made.push_back(planted(first + i));
  return made;
}

/// Returns the rows of a result table as maps from column to cell.
std::vector<std::map<std::string, Cell>> rows_of(const StudyResults& results, const std::string& name) {
  const auto table = std::ranges::find(results.tables, name, &Table::name);
  REQUIRE(table != results.tables.end());
  std::vector<std::map<std::string, Cell>> rows;
  std::vector<Cell> cells(table->columns.size());
  for (std::size_t i = 0; i < table->rows; ++i) {
    table->row(i, cells);
    rows.emplace_back();
    for (std::size_t c = 0; c < cells.size(); ++c) rows.back()[table->columns[c]] = cells[c];
  }
  return rows;
}

std::string saved(const Measure& measure) {
  StateWriter out;
  measure.save(out);
  return out.bytes();
}

TEST_CASE("a head that attends to each word's head is always right, and one to the next word as its offset") {
  const Fixture fixture;
  for (const std::size_t panel_rows : {3U, 1000U}) {
    CAPTURE(panel_rows);
    const auto all = fixture.measured(sentences(0, 60), 0, panel_rows);
    all->merge(*fixture.measured(sentences(60, 60), 1, panel_rows));
    StudyResults results;
    all->finish(results);
    const auto relations = rows_of(results, "relations");
    REQUIRE(relations.size() == 3 * 2 * kHeads.size());
    for (const auto& row : relations) {
      const bool to_head = row.at("direction") == Cell(std::string("to_head"));
      const auto head = std::get<std::int64_t>(row.at("head"));
      CAPTURE(head);
      if (to_head && head == 0) {
        CHECK(row.at("hits") == row.at("count"));
        CHECK(row.at("accuracy") == Cell(1.0F));
        CHECK(row.at("accuracy_held_out") == Cell(1.0F));
        CHECK(row.at("best") == Cell(true));
        CHECK(row.at("interval_low") == Cell(1.0F));
      }
      // Head 2 attends only from each word to itself, so it never has a hit.
      if (head == 2) CHECK(row.at("hits") == Cell(std::int64_t{0}));
      if (head == 1 && row.at("baseline_offset") == Cell(std::int64_t{1})) {
        CHECK(row.at("accuracy") == row.at("baseline"));
        CHECK(row.at("accuracy_held_out") == row.at("baseline_held_out"));
      }
    }
    const auto trees = rows_of(results, "trees");
    CHECK(trees[0].at("accuracy") == Cell(1.0F));
    CHECK(trees[1].at("hits") == trees[4].at("hits"));  // the chain of adjacent words
    CHECK(trees[4].at("kind") == Cell(std::string("adjacent")));
  }
}

TEST_CASE("blocks of syntax merge in any order, and through files, to the same bytes") {
  const Fixture fixture(true);
  std::vector<std::unique_ptr<Measure>> blocks;
  for (std::uint64_t i = 0; i < 6; ++i) blocks.push_back(fixture.measured(sentences(10 * i, 10), i, 5));
  const auto joined = [&](const std::vector<std::size_t>& order) {
    auto all = make_syntax_measure(fixture.shape);
    for (const std::size_t block : order) {
      const std::string bytes = saved(*blocks[block]);
      StateReader in(bytes, "block");
      auto read = make_syntax_measure(fixture.shape);
      read->load(in);
      CHECK(in.at_end());
      all->merge(block % 2 == 0 ? *read : *blocks[block]);
    }
    StudyResults results;
    all->finish(results);
    CHECK(std::get<std::string>(rows_of(results, "relations").front().at("relation")) == "r0");  // folded
    return saved(*all);
  };
  CHECK(joined({0, 1, 2, 3, 4, 5}) == joined({4, 1, 5, 0, 3, 2}));
}

TEST_CASE("windows of one sentence count its words once, and only pairs that one of them has") {
  const Fixture fixture;
  Planted whole = planted(3);
  REQUIRE(whole.tokens.size() > 3);
  Planted first = whole;   // without the tokens of the last word
  Planted second = whole;  // without the tokens of the first word
  for (const std::size_t token : whole.tokens.back()) first.sequence.words[token].reset();
  for (const std::size_t token : whole.tokens.front()) second.sequence.words[token].reset();
  const auto measure = fixture.measured({first, second}, 0, 100);
  StudyResults results;
  measure->finish(results);
  const Record& counts = *std::get<std::shared_ptr<const Record>>(results.summary.fields.front().second.data);
  std::map<std::string, std::int64_t> found;
  for (const auto& [name, value] : counts.fields)
    found[name] = std::get<std::int64_t>(std::get<Cell>(value.data));
  std::int64_t lost = 0;  // pairs of the first and the last word
  const auto& words = whole.annotation->words;
  lost += *words.front().head == words.size() ? 1 : 0;
  lost += *words.back().head == 1 ? 1 : 0;
  CHECK(found["sentences"] == 1);
  CHECK(found["words"] == static_cast<std::int64_t>(words.size()));
  CHECK(found["words_without_piece"] == 0);
  CHECK(found["pairs_left_out"] == lost);
}

}  // namespace
}  // namespace attnctl::test

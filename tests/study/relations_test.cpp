#include "study/measures/relations.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "cli/commands.hpp"
#include "study/measure.hpp"
#include "support/json_schema.hpp"
#include "support/panels.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {

using namespace study;

namespace {

std::string saved(const GroupScores& scores) {
  StateWriter out;
  scores.save(out);
  return out.bytes();
}

/// Returns scores with `asked` questions in every group. Each answer is right with the given probability.
GroupScores drawn(std::uint64_t asked, const std::vector<double>& shares, std::uint64_t seed) {
  GroupScores scores(shares.size());
  Random random(seed);
  for (std::size_t group = 0; group < kGroups; ++group) {
    std::vector<std::uint64_t>& counts = scores.group(group);
    counts[0] = asked;
    for (std::uint64_t i = 0; i < asked; ++i) {
      const double draw = random.uniform();
      for (std::size_t a = 0; a < shares.size(); ++a) counts[1 + a] += draw < shares[a] ? 1 : 0;
    }
  }
  return scores;
}

TEST_CASE("groups belong to even or odd blocks and have similar sizes") {
  std::vector<std::size_t> sizes(kGroups);
  for (std::uint64_t block = 0; block < 400; ++block) {
    for (std::size_t sequence = 0; sequence < 80; ++sequence) {
      const std::size_t group = group_of(block, sequence);
      CHECK((group < kGroups / 2) == (block % 2 == 0));
      CHECK(group == group_of(block, sequence - sequence % 8));
      ++sizes[group];
    }
  }
  const auto [least, most] = std::ranges::minmax(sizes);
  CHECK(least > 300);  // expected: 500; standard deviation: 63
  CHECK(most < 750);
}

TEST_CASE("intervals have the binomial width and cover the share in 95 % of cases") {
  int covered = 0;
  double width = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto estimate = drawn(50, {0.3}, seed).estimate(0);
    REQUIRE(estimate);
    const ConfidenceInterval interval = estimate->interval();
    covered += interval.low <= 0.3 && 0.3 <= interval.high ? 1 : 0;
    width += (interval.high - interval.low) / 200;
  }
  CHECK(covered >= 182);  // expected: 190
  CHECK(covered <= 199);
  CHECK(width == doctest::Approx(2 * 1.998 * std::sqrt(0.3 * 0.7 / (50.0 * kGroups))).epsilon(0.05));
}

TEST_CASE("intervals of constant answers, of paired differences and of too few groups") {
  const GroupScores sure = drawn(7, {1.0, 1.0, 0.5}, 1);
  const auto share = sure.estimate(0, kOddBlocks);
  REQUIRE(share);
  CHECK(share->interval().low == doctest::Approx(0.98).epsilon(0.005));
  CHECK(share->interval().high == 1);
  const auto same = sure.estimate(0, kOddBlocks, ScoredBaseline{.answer = 1});
  CHECK(same->share == 0);
  CHECK(same->difference_interval().low < -0.005);
  CHECK(same->difference_interval().high == -same->difference_interval().low);
  // The interval is that of the hits of the first answer minus those of the second one, each divided by its
  // scale.
  const auto gain = sure.estimate(0, kOddBlocks, ScoredBaseline{.answer = 2, .scale = 2});
  const auto half = sure.estimate(2, kOddBlocks);
  CHECK(gain->share == doctest::Approx(1 - half->share / 2));
  CHECK(gain->error == doctest::Approx(half->error / 2));
  CHECK((gain->count == 7 * 32 && gain->clusters == 32));
  GroupScores few(1);
  few.group(0)[0] = 10;
  CHECK_FALSE(few.estimate(0));
  few.group(40)[0] = 1;
  CHECK(few.estimate(0));
  CHECK_FALSE(few.estimate(0, kOddBlocks));
}

TEST_CASE("best() uses even blocks and prefers the first of equal answers") {
  GroupScores scores(4);
  CHECK_FALSE(scores.best(0, 4));
  scores.group(2) = {9, 1, 5, 5, 2};
  scores.group(33) = {9, 9, 0, 0, 9};
  CHECK(scores.best(0, 4) == 1);
  CHECK(scores.best(2, 2) == 2);
  CHECK(scores.accuracy(1, kEvenBlocks) == 5.0 / 9);
  CHECK(scores.accuracy(1) == 5.0 / 18);
  CHECK_FALSE(GroupScores(1).accuracy(0));
}

TEST_CASE("scores merge in any order to the same bytes, and damaged scores are refused") {
  std::vector<GroupScores> parts;
  for (std::uint64_t seed = 0; seed < 5; ++seed) parts.push_back(drawn(20, {0.2, 0.9}, seed));
  const auto joined = [&](const std::vector<std::size_t>& order) {
    GroupScores all(2);
    for (const std::size_t part : order) {
      const std::string bytes = saved(parts[part]);
      StateReader in(bytes, "part");
      GroupScores read(2);
      read.load(in);
      CHECK(in.at_end());
      all.merge(part % 2 == 0 ? read : parts[part]);
    }
    return saved(all);
  };
  CHECK(joined({0, 1, 2, 3, 4}) == joined({3, 0, 4, 2, 1}));
  const std::string bytes = saved(parts[0]);
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    GroupScores read(2);
    StateReader in(std::string_view(bytes).substr(0, size), "cut");
    CHECK_THROWS_AS(read.load(in), Error);
  }
  StateWriter outside;
  for (const std::uint64_t number : {1U, 64U, 0U, 0U, 0U}) outside.number(number);
  GroupScores read(2);
  StateReader in(outside.bytes(), "outside");
  CHECK_THROWS_WITH_AS(read.load(in), doctest::Contains("groups of sentences"), Error);
}

/// Returns the weight of the maximum spanning tree (Kruskal 1956): the heaviest edges that do not form a
/// cycle.
double kruskal(const std::vector<double>& weights, std::size_t n) {
  std::vector<std::tuple<double, std::size_t, std::size_t>> edges;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < a; ++b) edges.emplace_back(-weights[a * n + b], a, b);
  }
  std::ranges::sort(edges);
  std::vector<std::size_t> part(n);
  std::iota(part.begin(), part.end(), 0U);
  double sum = 0;
  for (const auto& [weight, a, b] : edges) {
    if (part[a] == part[b]) continue;
    sum -= weight;
    std::ranges::replace(part, std::size_t{part[a]}, std::size_t{part[b]});
  }
  return sum;
}

TEST_CASE("spanning trees have the weight of Kruskal's algorithm and connect all nodes") {
  Random random(5);
  MaximumSpanningTree tree;
  for (std::size_t n = 1; n <= 20; ++n) {
    std::vector<double> weights(n * n);
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < a; ++b) weights[a * n + b] = weights[b * n + a] = random.uniform();
    }
    const std::span<const std::size_t> parent = tree.find(weights, n);
    REQUIRE(parent.size() == n);
    double sum = 0;
    for (std::size_t node = 1; node < n; ++node) {
      sum += weights[node * n + parent[node]];
      std::size_t at = node;
      for (std::size_t steps = 0; at != 0 && steps < n; ++steps) at = parent[at];
      CHECK(at == 0);
    }
    CHECK(sum == doctest::Approx(kruskal(weights, n)));
  }
}

/// A sentence between two special tokens. The pieces of word w are tokens[w].
struct Planted {
  input::Sequence sequence;
  std::shared_ptr<input::ConlluSentence> annotation = std::make_shared<input::ConlluSentence>();
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
    input::ConlluWord& annotated = made.annotation->words.emplace_back();
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
  model::Model model = open_golden("bert");
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
  const StudyBlock block(model, corpus, shape);
  auto measure = syntax_measure().make(shape);
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
        forward::AttentionPanel panel;
        panel.sequence = s;
        panel.head = head;
        panel.first_query = first;
        panel.pattern = {pattern.data() + first * in.n(), rows, in.n()};
        std::vector<analysis::PatternRow> shown;
        for (std::size_t r = 0; r < rows; ++r)
          shown.emplace_back(panel.pattern.row(r), panel.keys(), first + r, block.marks(s));
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

TEST_CASE(
    "a head that attends to head words is always right, and one that attends to the next word equals offset "
    "1") {
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
        CHECK(std::get<float>(row.at("interval_low")) < 0.99F);
        CHECK(row.at("interval_high") == Cell(1.0F));
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

TEST_CASE("blocks of syntax merge in any order, also through files, to the same bytes") {
  const Fixture fixture(true);
  std::vector<std::unique_ptr<Measure>> blocks;
  for (std::uint64_t i = 0; i < 6; ++i) blocks.push_back(fixture.measured(sentences(10 * i, 10), i, 5));
  const auto joined = [&](const std::vector<std::size_t>& order) {
    auto all = syntax_measure().make(fixture.shape);
    for (const std::size_t block : order) {
      const std::string bytes = saved(*blocks[block]);
      StateReader in(bytes, "block");
      auto read = syntax_measure().make(fixture.shape);
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

TEST_CASE("windows count each word once, and only pairs that one window contains") {
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

using nlohmann::json;

RunResult study(const std::string& file, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {
      "study", ATTNCTL_SOURCE_DIR "/data/tiny-bert", "--input", file, "--measures", "coreference", "--format",
      "json"};
  words.insert(words.end(), more.begin(), more.end());
  return run_attnctl(words);
}

/// The same sentence in CoNLL-U and JSON. "Ann" and "dog" are separate words, although no space separates
/// them from "'s" and ".".
const char* const kConllu =
    "1\tAnn\t_\tPROPN\t_\t_\t3\tnmod\t_\tEntity=(e2(e1)|SpaceAfter=No\n"
    "2\t's\t_\tPART\t_\t_\t1\tcase\t_\t_\n"
    "3\tdog\t_\tNOUN\t_\t_\t4\tnsubj\t_\tEntity=e2)\n"
    "4\tsaw\t_\tVERB\t_\t_\t0\troot\t_\t_\n"
    "5\ther\t_\tPRON\t_\t_\t4\tobj\t_\tEntity=(e1)\n"
    "6\tand\t_\tCCONJ\t_\t_\t8\tcc\t_\t_\n"
    "7\tthe\t_\tDET\t_\t_\t8\tdet\t_\tEntity=(e3\n"
    "8\tdog\t_\tNOUN\t_\t_\t4\tconj\t_\tEntity=e3)\n"
    "9\tknew\t_\tVERB\t_\t_\t4\tconj\t_\t_\n"
    "10\tAnn\t_\tPROPN\t_\t_\t9\tobj\t_\tEntity=(e1)|SpaceAfter=No\n"
    "11\t.\t_\tPUNCT\t_\t_\t4\tpunct\t_\t_\n\n";
const char* const kJson =
    R"({"text": "Ann's dog saw her and the dog knew Ann.", "mentions": [
        {"entity": 2, "range": [0, 9], "type": "nominal"}, {"entity": "1", "range": [0, 3], "type": "proper"},
        {"entity": "1", "range": [14, 17], "type": "pronoun"},
        {"entity": 3, "range": [22, 29], "head": [26, 29], "type": "nominal"},
        {"entity": "1", "range": [35, 38], "type": "proper"}]})";

TEST_CASE("mentions in JSON and in CoNLL-U give the same results, with baselines counted by hand") {
  const TempDir folder;
  const json of_conllu = json::parse(study(folder.write("a.conllu", kConllu).string()).out);
  const json of_json = json::parse(study(folder.write("a.json", kJson).string()).out);
  CHECK(of_conllu["coreference"] == of_json["coreference"]);
  CHECK(of_conllu["summary"]["coreference"] ==
        json::parse(R"({"mentions": 5, "anaphoric": 2, "left_out": 0})"));
  CHECK(of_json["summary"]["coreference"] == of_conllu["summary"]["coreference"]);
  // "her" has the candidates Ann and dog; dog is nearer. The last Ann has the candidates Ann, dog, her and
  // dog.
  for (const json& row : of_conllu["coreference"]) {
    const std::string type = row["mention_type"];
    CAPTURE(type);
    CHECK(row["count"] == (type == "all" ? 2 : type == "nominal" ? 0 : 1));
    if (type == "nominal") {
      CHECK(row["nearest"].is_null());
      CHECK(row["accuracy"].is_null());
      continue;
    }
    CHECK(row["nearest"] == 0);
    CHECK(row["same_string"] == (type == "all" ? 0.5 : type == "proper" ? 1.0 : 0.0));
    CHECK(row["random"] == 0.5);
  }
}

TEST_CASE("invalid mentions are refused with their JSON pointer") {
  const TempDir folder;
  struct Row {
    const char* mentions;
    const char* part;
  };
  const std::vector<Row> rows = {
      {"3", "/mentions: expected an array"},
      {"[3]", "/mentions/0: expected an object"},
      {R"([{"entity": 1}])", "/mentions/0/range: expected a value, found nothing"},
      {R"([{"entity": 1, "range": [0, 3], "kind": 2}])", "/mentions/0/kind: unsupported key"},
      {R"([{"entity": 1, "range": [0, 3]}, {"entity": [], "range": [0, 3]}])", "/mentions/1/entity: got []"},
      {R"([{"entity": 1, "range": [3, 3]}])",
       "/mentions/0/range: got [3,3], need [begin, end) with begin < end <= 7"},
      {R"([{"entity": 1, "range": [0, 8]}])", "/mentions/0/range"},
      {R"([{"entity": 1, "range": [-1, 2]}])", "/mentions/0/range"},
      {R"([{"entity": 1, "range": [4, 7], "head": [0, 3]}])", "/mentions/0/head: the head is not within"},
      {R"([{"entity": 1, "range": [0, 3], "type": "noun"}])", "/mentions/0/type: unsupported"},
      {R"([{"entity": 1, "range": [3, 4]}])",
       "/mentions/0: the mention or its head contains only white space"},
      {R"([{"entity": 1, "range": [0, 4], "head": [3, 4]}])",
       "/mentions/0: the mention or its head contains only white space"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.mentions);
    const std::string line = std::string(R"({"text": "the cat", "mentions": )") + row.mentions + "}\n";
    const RunResult result = study(folder.write("bad.jsonl", line).string());
    CHECK(result.status == 3);
    CHECK(result.err.find("bad.jsonl: line 1") != std::string::npos);
    CHECK(result.err.find(row.part) != std::string::npos);
  }
  for (const char* line :
       {R"({"text": "a", "text_pair": "b", "mentions": []})", R"({"ids": [5], "mentions": []})"}) {
    const RunResult result = study(folder.write("bad.jsonl", line).string());
    CHECK(result.status == 3);
    CHECK(result.err.find("mentions: cannot be used together with") != std::string::npos);
  }
}

TEST_CASE(
    "results for annotations match the schema and do not depend on shards, and are absent without "
    "annotations") {
  const std::string data = ATTNCTL_SOURCE_DIR "/data/";
  const TempDir folder;
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"study", data + "tiny-llama", "--input", data + "treebank.conllu",
                               "--batch-tokens", "30", "--measures", "syntax,coreference"});
    return run_attnctl(more);
  };
  const std::string whole = run({"--threads", "1", "--format", "json"}).out;
  CHECK(run({"--threads", "2", "--format", "json"}).out == whole);
  CHECK(schema_breaches(json::parse(cli::schema_text("study")), json::parse(whole)).empty());
  std::vector<std::string> words = {"merge"};
  for (const std::string shard : {"3", "1", "2"}) {
    words.push_back((folder.path() / shard).string());
    REQUIRE(run({"--shard", shard + "/3", "--state", words.back()}).status == 0);
  }
  words.insert(words.end(), {"--format", "json"});
  CHECK(run_attnctl(words).out == whole);
  CHECK(run({"--format", "json", "--seed", "1"}).out != whole);
  const json plain = json::parse(
      run_attnctl({"study", data + "tiny-llama", "--input", data + "sentences.txt", "--format", "json"}).out);
  for (const char* section : {"relations", "trees", "coreference"}) CHECK_FALSE(plain.contains(section));
}

}  // namespace
}  // namespace attnctl::test

#include "study/corpus.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "study/state/sums.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/planted_model.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {

using namespace study;

namespace {

using nlohmann::json;
using Words = std::vector<std::string>;
using Places = std::vector<std::size_t>;

const std::string kBert = ATTNCTL_SOURCE_DIR "/data/tiny-bert";
const std::string kCorpus = ATTNCTL_SOURCE_DIR "/tests/golden/study/corpus.txt";

input::Sequence sequence_of(std::vector<std::int64_t> ids) {
  input::Sequence sequence;
  sequence.ids = std::move(ids);
  for (const std::int64_t id : sequence.ids) sequence.special.push_back(id >= 90 ? 1 : 0);
  return sequence;
}

TEST_CASE("rarest_tokens returns all equally rare tokens and ignores special tokens") {
  TokenFrequencies frequencies;
  for (const auto& ids : {std::vector<std::int64_t>{90, 1, 1, 1, 2, 3, 91}, {90, 2, 3, 4, 91}})
    frequencies.add(sequence_of(ids));
  CHECK(frequencies.of(1) == 3);
  CHECK(frequencies.of(4) == 1);
  CHECK(frequencies.of(90) == 0);  // special
  CHECK(frequencies.of(77) == 0);  // does not occur
  CHECK(rarest_tokens(sequence_of({90, 1, 2, 3, 1, 91}), frequencies) == Places{2, 3});
  CHECK(rarest_tokens(sequence_of({90, 4, 2, 4, 91}), frequencies) == Places{1, 3});
  CHECK(rarest_tokens(sequence_of({90, 4, 77, 91}), frequencies) == Places{2});
  CHECK(rarest_tokens(sequence_of({90, 91}), frequencies).empty());
  input::Sequence hidden = sequence_of({90, 4, 2, 91});
  hidden.key_visible = {1, 0, 1, 1};
  CHECK(rarest_tokens(hidden, frequencies) == Places{2});
  const TokenFrequencies unknown;
  CHECK(rarest_tokens(sequence_of({90, 1, 2, 91}), unknown) == Places{1, 2});
}

TEST_CASE("a block counts the tokens of a target if it is longer than its input") {
  const TempDir folder;
  const model::Model model = MemoryModel::golden("t5").bound();
  const tokenizer::Vocabulary vocabulary;
  input::TextEncoder encoder({}, "t5");
  std::string text;
  for (int i = 0; i < 4; ++i) text += "{\"ids\": [3, 4], \"target_ids\": [0, 5, 6, 7]}\n";
  CorpusOptions options;
  options.files = {{folder.write("corpus.jsonl", text), input::InputFormat::jsonl}};
  for (const auto& [batch_tokens, sizes] :
       {std::pair(std::size_t{8}, Places{2, 2}), {std::size_t{12}, Places{3, 1}}}) {
    options.batch_tokens = batch_tokens;
    CorpusBlocks blocks(options, model, vocabulary, encoder);
    Places found;
    while (const std::optional<CorpusBlock> block = blocks.next()) {
      found.push_back(block->batch.sequences.size());
      CHECK(block->counts.tokens == 2 * found.back());
    }
    CHECK(found == sizes);
  }
}

TEST_CASE("shuffled_tokens keeps the set of tokens and the positions of special tokens") {
  CorpusBlock block;
  block.number = 3;
  std::vector<std::int64_t> ids = {90};
  for (std::int64_t id = 0; id < 40; ++id) ids.push_back(id % 30);
  ids[20] = 92;
  ids.push_back(91);
  block.batch.sequences.assign(3, sequence_of(ids));
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t repetition = 0; repetition < 4; ++repetition) {
    const input::Batch batch = shuffled_tokens(block, 7, repetition);
    CHECK(batch.sequences[1].ids == shuffled_tokens(block, 7, repetition).sequences[1].ids);
    for (const input::Sequence& sequence : batch.sequences) {
      orders.insert(sequence.ids);
      CHECK(std::ranges::is_permutation(sequence.ids, ids));
      for (const std::size_t place : {std::size_t{0}, std::size_t{20}, ids.size() - 1})
        CHECK(sequence.ids[place] == ids[place]);
    }
  }
  CHECK(orders.size() == 12);
  orders.insert(shuffled_tokens(block, 8, 0).sequences[0].ids);
  block.number = 4;
  orders.insert(shuffled_tokens(block, 7, 0).sequences[0].ids);
  CHECK(orders.size() == 14);
}

TEST_CASE("shuffled_tokens draws each order equally often") {
  CorpusBlock block;
  block.batch.sequences = {sequence_of({90, 1, 2, 3, 91})};
  std::map<std::vector<std::int64_t>, int> counts;
  for (std::uint64_t repetition = 0; repetition < 6000; ++repetition)
    ++counts[shuffled_tokens(block, 0, repetition).sequences[0].ids];
  CHECK(counts.size() == 6);
  for (const auto& [order, count] : counts) CHECK(std::abs(count - 1000) < 150);  // 5 standard deviations
}

TEST_CASE("frequency files are read by token or by id") {
  const TempDir folder;
  const tokenizer::Vocabulary vocabulary({"a", "b\tc", "d", ""}, {});
  const auto read = [&](const std::string& text) {
    return read_frequencies(folder.write("counts.tsv", text), vocabulary, 4);
  };
  for (const std::string text : {"a\t3\nb\tc\t5\n", "token\tcount\r\na\t3\r\nb\tc\t5",
                                 "id\tcount\n0\t3\n1\t5\n", "\xEF\xBB\xBFtoken\tcount\na\t3\nb\tc\t5\n"}) {
    CAPTURE(text);
    const TokenFrequencies frequencies = read(text);
    CHECK(frequencies.of(0) == 3);
    CHECK(frequencies.of(1) == 5);
    CHECK(frequencies.of(2) == 0);
  }
  const std::vector<std::pair<std::string, const char*>> bad = {
      {"", "the file has no counts"},
      {"token\tcount\n", "the file has no counts"},
      {"a 3\n", "line 1: got \"a 3\", need TOKEN<TAB>COUNT"},
      {"a\t3\n\nd\t1\n", "line 2: got \"\""},
      {"a\t-3\n", "line 1: got \"a\\x09-3\""},
      {"a\t3\nz\t1\n", "line 2: got \"z\", need a token of the model"},
      {"a\t3\nd\t1\na\t3\n", "line 3: got \"a\", need one count per token; line 1"},
      {"id\tcount\n4\t1\n", "line 2: got \"4\", need an id of the model, 0 to 3"},
      {"id\tcount\na\t1\n", "line 2: got \"a\", need an id"},
  };
  for (const auto& row : bad) {
    CAPTURE(row.first);
    try {
      (void)read(row.first);
      FAIL_CHECK("was read");
    } catch (const Error& error) {
      CAPTURE(error.what());
      CHECK(error.status() == Status::bad_input);
      CHECK(std::string(error.what()).find(row.second) != std::string::npos);
    }
  }
}

RunResult study(Words more, const RunOptions& options = {}) {
  Words words = {"study", kBert, "--batch-tokens", "500"};
  words.insert(words.end(), more.begin(), more.end());
  return run_attnctl(words, options);
}

/// Returns lines TOKEN<TAB>COUNT for the corpus, counted from the output of `tokenize`.
std::string counted() {
  const json document =
      json::parse(run_attnctl({"tokenize", kBert, "--input", kCorpus, "--format", "json"}).out);
  std::map<std::string, int> counts;
  for (const json& input : document.at("inputs")) {
    for (const std::string token : input.at("tokens")) ++counts[token];
  }
  std::string text;
  for (const auto& [token, count] : counts) text += token + "\t" + std::to_string(count) + "\n";
  return text;
}

TEST_CASE("frequencies are counted in the corpus by default") {
  const TempDir folder;
  const std::string file = folder.write("counts.tsv", counted()).string();
  const Words rare = {"--measures", "rare", "--format", "json"};
  const auto run = [&](Words more, const RunOptions& options = {}) {
    more.insert(more.end(), rare.begin(), rare.end());
    const RunResult result = study(more, options);
    REQUIRE(result.status == 0);
    return json::parse(result.out);
  };
  const json own = run({"--input", kCorpus});
  CHECK(own["settings"]["frequencies"] == "of the corpus");
  const json given = run({"--input", kCorpus, "--frequencies", file});
  CHECK(given["rare"] == own["rare"]);
  CHECK(given["settings"]["frequencies"] != own["settings"]["frequencies"]);
  const json piped =
      run({"--input", "-", "--input-format", "txt", "--frequencies", file}, {.input = slurp(kCorpus)});
  CHECK(piped["rare"] == own["rare"]);
  const json other = run({"--input", kCorpus, "--frequencies", folder.write("one.tsv", "the\t5\n").string()});
  CHECK(other["rare"] != own["rare"]);
  // Tokens in overlapping windows count once.
  const json windows = run({"--input", kCorpus, "--max-length", "9", "--stride", "3", "--frequencies", file});
  CHECK(windows["rare"] == run({"--input", kCorpus, "--max-length", "9", "--stride", "3"})["rare"]);
}

TEST_CASE("rare is left out for standard input without --frequencies") {
  const Words piped = {"--input", "-", "--input-format", "txt", "--format", "json"};
  const RunOptions options{.input = "the cat sat\nthe dog ran\n"};
  const RunResult all = study(piped, options);
  REQUIRE(all.status == 0);
  CHECK(all.err.find("skipped the measure rare: it reads the corpus twice") != std::string::npos);
  CHECK_FALSE(json::parse(all.out).contains("rare"));
  Words asked = piped;
  asked.insert(asked.end(), {"--measures", "rare"});
  const RunResult refused = study(asked, options);
  CHECK(refused.status == 2);
  CHECK(refused.err.find("--frequencies FILE") != std::string::npos);
  const RunResult useless = study({"--input", kCorpus, "--measures", "metrics", "--frequencies", kCorpus});
  CHECK(useless.status == 2);
  CHECK(study({"--input", kCorpus, "--frequencies", "absent.tsv"}).status == 4);
  CHECK(study({"--input", kCorpus, "--frequencies", kCorpus}).status == 3);
}

TEST_CASE("results with --null-shuffle do not depend on threads, shards or restarts") {
  const TempDir folder;
  const auto path = [&](const std::string& name) { return (folder.path() / name).string(); };
  const Words base = {"--input",        ATTNCTL_SOURCE_DIR "/data/treebank.conllu",
                      "--batch-tokens", "16",
                      "--measures",     "rare,syntax,coreference,roles",
                      "--null-shuffle", "2"};
  const auto run = [&](const Words& more) {
    Words words = {"study", kBert};
    words.insert(words.end(), base.begin(), base.end());
    words.insert(words.end(), more.begin(), more.end());
    return run_attnctl(words);
  };
  const RunResult whole = run({"--format", "json", "--threads", "1"});
  REQUIRE(whole.status == 0);
  CHECK(run({"--format", "json", "--threads", "2"}).out == whole.out);
  CHECK(run({"--format", "json", "--checkpoint", path("c"), "--checkpoint-every", "0"}).out == whole.out);
  CHECK(run({"--format", "json", "--checkpoint", path("c")}).out == whole.out);
  Words merge = {"merge"};
  for (const char* const shard : {"3/3", "1/3", "2/3"}) {
    merge.push_back(path(std::string(shard, 1)));
    REQUIRE(run({"--shard", shard, "--state", merge.back()}).status == 0);
  }
  merge.insert(merge.end(), {"--format", "json"});
  CHECK(run_attnctl(merge).out == whole.out);
  Words unlike = base;
  unlike.back() = "1";
  unlike.insert(unlike.begin(), {"study", kBert});
  unlike.insert(unlike.end(), {"--shard", "2/3", "--state", path("2")});
  REQUIRE(run_attnctl(unlike).status == 0);
  const RunResult refused = run_attnctl(merge);
  CHECK(refused.status == 3);
  CHECK(refused.err.find("--null-shuffle: got") != std::string::npos);
}

TEST_CASE("the probe repeats distinct tokens, and its control has other tokens in the first copy") {
  const tokenizer::Vocabulary vocabulary = PlantedModel::vocabulary();
  const std::vector<std::int64_t> prefix = {PlantedModel::kBegin};
  const std::vector<ProbeSequence> probes =
      probe_sequences({.sequences = 3, .seed = 5}, prefix, 34, 20, vocabulary);
  REQUIRE(probes.size() == 6);
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const std::vector<std::int64_t>& ids = probes[i].sequence.ids;
    const ProbeMarks& marks = probes[i].marks;
    CHECK(marks.first == 1);
    CHECK(marks.length == 8);  // a quarter of 32 ordinary tokens
    CHECK(marks.repeated == (i % 2 == 0));
    REQUIRE(ids.size() == 17);
    CHECK(ids[0] == PlantedModel::kBegin);
    CHECK(std::ranges::max(ids) == PlantedModel::kBegin);  // no other special token
    const std::set<std::int64_t> said(ids.begin() + 1, ids.end());
    CHECK(said.size() == (marks.repeated ? 8 : 16));
    if (marks.repeated) CHECK(std::equal(ids.begin() + 1, ids.begin() + 9, ids.begin() + 9));
    if (!marks.repeated)
      CHECK(std::equal(ids.begin() + 9, ids.end(), probes[i - 1].sequence.ids.begin() + 9));
  }
  CHECK(probes[0].sequence.ids != probes[2].sequence.ids);
  CHECK(probe_sequences({.sequences = 3}, prefix, 34, 8, vocabulary).empty());  // too short for two copies
  CHECK(probe_sequences({.sequences = 3}, {}, 15, 20, vocabulary).empty());     // too few ordinary tokens
  CHECK(probe_sequences({.sequences = 0}, prefix, 34, 20, vocabulary).empty());
  // A plan with more sequences begins with the same sequences.
  CHECK(probe_sequences({.sequences = 1, .seed = 5}, prefix, 34, 20, vocabulary)[0].sequence.ids ==
        probes[0].sequence.ids);
}

}  // namespace
}  // namespace attnctl::test

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/patterns/pattern_metrics.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "linalg/kernels/kernels.hpp"
#include "results/results.hpp"
#include "study/measure.hpp"
#include "study/state/study_state.hpp"
#include "support/bytes.hpp"
#include "support/command_refusal.hpp"
#include "support/fault.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kBert = ATTNCTL_SOURCE_DIR "/data/tiny-bert";

/// Returns lines of 1 to 11 words, some of them repeated.
std::string corpus(std::size_t lines) {
  const Words words = {"the", "cat", "sat", "on", "a", "mat", "and", "it", "was", "tired", ".", "dog", "ran"};
  std::string text;
  for (std::size_t line = 0; line < lines; ++line) {
    for (std::size_t i = 0; i <= line % 11; ++i)
      text += (i > 0 ? " " : "") + words[(line * line + 3 * i * line + i) % words.size()];
    text += '\n';
  }
  return text;
}

/// A folder with a corpus, in which `study` runs.
struct Study {
  TempDir folder;
  std::string input = folder.write("corpus.txt", corpus(60)).string();

  [[nodiscard]] std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  [[nodiscard]] RunResult run(Words more, const RunOptions& options = {}) const {
    Words words = {"study", kBert, "--input", input, "--batch-tokens", "40"};
    words.insert(words.end(), more.begin(), more.end());
    return run_attnctl(words, options);
  }
  /// Returns the document of one run over the whole corpus.
  [[nodiscard]] std::string whole(Words more = {}) const {
    more.insert(more.end(), {"--format", "json"});
    const RunResult result = run(more);
    REQUIRE(result.status == 0);
    CHECK(result.err.empty());
    return result.out;
  }
  /// Returns the state files of `count` shards.
  [[nodiscard]] Words shards(std::size_t count) const {
    Words files;
    for (std::size_t i = 1; i <= count; ++i) {
      files.push_back(path("shard-" + std::to_string(i) + ".state"));
      const RunResult result =
          run({"--shard", std::to_string(i) + "/" + std::to_string(count), "--state", files.back()});
      REQUIRE(result.status == 0);
      CHECK(result.out.empty());
    }
    return files;
  }
};

RunResult merge(const Words& states, const Words& more = {"--format", "json"}) {
  Words words = {"merge"};
  words.insert(words.end(), states.begin(), states.end());
  words.insert(words.end(), more.begin(), more.end());
  return run_attnctl(words);
}

TEST_CASE("a study matches its schema and counts its corpus") {
  const Study study;
  const json document = json::parse(study.whole());
  CHECK(schema_breaches(json::parse(cli::schema_text("study")), document) == Words{});
  CHECK(document["corpus"]["sentences"] == 60);
  CHECK(document["heads"].size() == 12);
  CHECK(document["summary"]["blocks"] == document["summary"]["of"]);
  CHECK(document["summary"]["blocks"] > 10);
  for (const json& head : document["heads"]) {
    CHECK(head["rows"] == document["corpus"]["tokens"]);
    CHECK(head["entropy_count"] == document["corpus"]["tokens"]);
  }
}

TEST_CASE("a study's metrics are those of analyze over the same inputs") {
  const Study study;
  const json heads = json::parse(study.whole({"--measures", "metrics"}))["heads"];
  const RunResult analyze =
      run_attnctl({"analyze", kBert, "--input", study.input, "--include", "metrics", "--format", "json"});
  const json wanted = json::parse(analyze.out)["heads"];
  REQUIRE(heads.size() == wanted.size());
  for (std::size_t h = 0; h < heads.size(); ++h) {
    for (const analysis::RowMetric& metric : analysis::row_metrics()) {
      const std::string name(metric.about.name);
      CAPTURE(name);
      const double want = wanted[h][name];
      CHECK(heads[h][name].get<double>() == doctest::Approx(want).epsilon(1e-5));
    }
  }
}

TEST_CASE("a study reads several files, also compressed files") {
  const Study study;
  const auto run = [&](const Words& files) {
    Words words = {"study", kBert, "--batch-tokens", "40", "--measures", "metrics", "--format", "json"};
    for (const std::string& file : files) words.insert(words.end(), {"--input", file});
    const RunResult result = run_attnctl(words);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return json::parse(result.out);
  };
  const std::string packed = study.folder.write("packed.txt.gz", gzip(slurp(study.input))).string();
  const std::string frame = study.folder.write("frame.txt.zst", zstd(slurp(study.input))).string();
  CHECK(run({frame, study.input})["heads"] == run({packed, study.input})["heads"]);
  const json document = run({packed, study.input});
  CHECK(document["corpus"]["sentences"] == 120);
  CHECK(document["heads"] == run({study.input, study.input})["heads"]);
  // The damage is after the first block of text that is read.
  std::string text = "the cat sat\n";
  for (int i = 0; i < 500; ++i) text += std::string(1000, ' ') + '\n';
  const std::string cut = gzip(text + "the cat sat\n");
  const std::string bad = study.folder.write("cut.txt.gz", cut.substr(0, cut.size() - 4)).string();
  const RunResult result = run_attnctl({"study", kBert, "--input", bad, "--skip-bad"});
  CHECK(result.status == 3);
  CHECK_MESSAGE(result.err.find("cut.txt.gz: damaged") != std::string::npos, result.err);
}

TEST_CASE("--config-file gives options, which those of the command line replace") {
  const Study study;
  const auto run = [&](Words words) {
    words.insert(words.begin(), {"study", kBert});
    RunResult result = run_attnctl(words);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return result;
  };
  const std::string file = study.folder
                               .write("study.toml", "# A study\ninput = [\n  \"" + study.input +
                                                        "\",  # twice\n  '" + study.input + "',\n]\n" +
                                                        "batch-tokens = 40  # small\n\n"
                                                        "measures = [\"metrics\" , 'syntax']\r\n"
                                                        "layers = [0, 2]\nquiet = true\nskip-bad = false\n"
                                                        "format = \"csv\"\ntable = \"heads\"\n")
                               .string();
  const Words options = {"--batch-tokens", "40", "--layers", "0,2", "--measures", "metrics"};
  Words once = options, twice = options;
  once.insert(once.end(), {"--input", study.input, "--format", "json"});
  twice.insert(twice.end(),
               {"--input", study.input, "--input", study.input, "--format", "csv", "--table", "heads"});
  const RunResult result = run({"--config-file", file, "--measures", "metrics"});
  CHECK(result.out == run(twice).out);
  CHECK(result.err.empty());
  CHECK(run({"--measures=metrics", "--format", "json", "--table", "", "--config-file=" + file, "--input",
             study.input})
            .out == run(once).out);
  const RunResult conflict =
      run_attnctl({"study", kBert, "--config-file", file, "--measures", "metrics", "--state", file});
  CHECK(conflict.status == 2);
  CHECK_MESSAGE(conflict.err.find("study.toml, an input of this run") != std::string::npos, conflict.err);
  CHECK(slurp(file).starts_with("# A study\n"));
}

TEST_CASE("texts in the file of --config-file may have escaped quotes and backslashes") {
  const TempDir folder;
  const auto names = [&](const std::string& value, const std::string& path) {
    const std::string file = folder.write("study.toml", "input = " + value + "\n").string();
    const RunResult result = run_attnctl({"study", kBert, "--config-file", file});
    CHECK_MESSAGE(result.err.find("attnctl: " + path + ": ") == 0, result.err);
  };
  names(R"("a\"b.txt")", "a\"b.txt");
  names(R"(["a \"b\".txt"])", "a \"b\".txt");
  names(R"("a\\b.txt")", R"(a\b.txt)");
  names(R"('a\".txt')", R"(a\".txt)");
}

TEST_CASE("plan reads --config-file too") {
  const Study study;
  const std::string file =
      study.folder
          .write("plan.toml",
                 "input = '" + study.input + "'\nmeasures = 'metrics'\nbatch-tokens = 40\nnodes = 3\n")
          .string();
  const RunResult result =
      run_attnctl({"plan", kBert, "--config-file", file, "--seconds", "0.1", "--format", "json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(json::parse(result.out).at("shards").size() == 3);
  const RunResult conflict =
      run_attnctl({"plan", kBert, "--config-file", file, "--format", "json", "-o", file});
  CHECK(conflict.status == 2);
  CHECK_MESSAGE(conflict.err.find("plan.toml, an input of this run") != std::string::npos, conflict.err);
}

TEST_CASE("a bad file of --config-file is an error that names the file") {
  struct Row {
    const char* text;
    const char* message;
    Status status = Status::usage;
  };
  const std::vector<Row> rows = {
      {"mesures = 'metrics'", "unknown key \"mesures\" (did you mean \"measures\"?)"},
      {"[study]\nlayers = 0\n", "unknown key \"study\""},
      {"config-file = 'x'", "unknown key \"config-file\""},
      {"help = true", "unknown key \"help\""},
      {"--seed = 1", "unknown key \"--seed\""},
      {"threads = 0", "--threads: got 0, need a number from 1 to 4096"},
      {"seed = 1\nlayers = 0\nseed = 2\n", "line 3: the key \"seed\" is given twice", Status::bad_input},
      {"input = 'a.txt'\ninput = 'b.txt'", "line 2: the key \"input\" is given twice", Status::bad_input},
      {"quiet = 'maybe'", "Could not convert: --quiet = maybe"},
      {"\nlayers = \"0\nseed = 1\n", "line 2: a text must end with \" on its line", Status::bad_input},
      {"frequencies = 'a#b'", "line 1: a text must end with ' on its line and have no #", Status::bad_input},
      {"layers = [0\nseed = 1", "need as many [ as ]", Status::bad_input}};
  const TempDir folder;
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const std::string file = folder.write("study.toml", row.text).string();
    check_command_refuses({"study", kBert, "--config-file", file},
                          {.status = row.status, .parts = {"study.toml: ", row.message}});
  }
  check_command_refuses({"study", kBert, "--config-file", "none.toml"},
                        {.status = Status::environment, .parts = {"none.toml: cannot open"}});
}

TEST_CASE("threads, shards and their order do not change a byte of a study") {
  const Study study;
  const std::string whole = study.whole({"--threads", "1"});
  CHECK(study.whole({"--threads", "2"}) == whole);
  Words files = study.shards(7);
  for (int round = 0; round < 4; ++round) {
    const RunResult result = merge(files);
    CHECK(result.status == 0);
    CHECK(result.out == whole);
    std::rotate(files.begin(), files.begin() + 2, files.end());
    std::swap(files[0], files[4]);
  }
  const std::string half = study.path("half.state");
  REQUIRE(merge({files[0], files[1], files[2]}, {"--partial", "--state", half, "--format", "json"}).status ==
          0);
  CHECK(merge({files[3], files[4], half, files[5], files[6]}).out == whole);
}

TEST_CASE("a killed study continues to the same bytes") {
  const Study study;
  const std::string whole = study.whole();
  for (const std::string at : {"0", "1", "4", "9", "13"}) {
    CAPTURE(at);
    const Words options = {
        "--checkpoint", study.path(at + ".state"), "--checkpoint-every", "0", "--threads", "2", "--format",
        "json"};
    RunOptions killed;
    killed.environment = with_fault("rename:KILL:" + at, at + ".state");
    CHECK(study.run(options, killed).status == 128 + 9);
    const RunResult resumed = study.run(options);
    CHECK(resumed.status == 0);
    CHECK(resumed.out == whole);
    CHECK(study.run(options).out == whole);  // the state is complete
  }
}

TEST_CASE("an interrupted study saves its state") {
  const Study study;
  for (const std::string signal : {"INT", "TERM"}) {
    CAPTURE(signal);
    const std::string state = study.path(signal + ".state");
    const Words options = {"--checkpoint", state, "--checkpoint-every", "0", "--format", "json"};
    RunOptions stopped;
    stopped.environment = with_fault("rename:" + signal + ":3", signal + ".state");
    const RunResult result = study.run(options, stopped);
    CHECK(result.status == 130);
    CHECK(result.out.empty());
    CHECK_MESSAGE(result.err.starts_with("attnctl: interrupted; " + state + " has "), result.err);
    CHECK_MESSAGE(result.err.ends_with("; run the same command to continue\n"), result.err);
    CHECK(std::ranges::count(result.err, '\n') == 1);
    CHECK(merge({state}).status == 3);  // the state is incomplete
    CHECK(merge({state}, {"--partial", "--format", "text"}).out.find("blocks are done, perhaps not all") !=
          std::string::npos);
    const RunResult resumed = study.run(options);
    CHECK(resumed.out == study.whole());
    CHECK_MESSAGE(resumed.err.starts_with("attnctl: continues " + state + ": "), resumed.err);
    const RunResult again = study.run(options);  // now the number of all blocks is known
    const std::string blocks = json::parse(again.out)["summary"]["of"].dump();
    CHECK_MESSAGE(again.err.starts_with("attnctl: continues " + state + ": " + blocks + " of " + blocks +
                                        " blocks are done\n"),
                  again.err);
    Words quiet = options;
    quiet.emplace_back("--quiet");
    CHECK(study.run(quiet).err.empty());
  }
}

TEST_CASE("states of different studies are rejected") {
  const Study study;
  const std::string first = study.path("first.state");
  REQUIRE(study.run({"--shard", "1/2", "--state", first}).status == 0);
  const std::string other_corpus = study.folder.write("other.txt", corpus(59)).string();
  const std::string llama = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
  struct Row {
    const char* name;
    Words command;
    std::string part;
  };
  const std::vector<Row> rows = {
      {"model",
       {"study", llama, "--input", study.input, "--batch-tokens", "40"},
       "model: got \"" + llama + "\" (config "},
      {"corpus",
       {"study", kBert, "--input", other_corpus, "--batch-tokens", "40"},
       "corpus: got \"" + other_corpus + "\" ("},
      {"blocks",
       {"study", kBert, "--input", study.input, "--batch-tokens", "50"},
       "--batch-tokens: got \"50\", need \"40\" as in " + first + "; use the same"},
      {"heads",
       {"study", kBert, "--input", study.input, "--batch-tokens", "40", "--layers", "1"},
       "--heads: only " + first + " has 0.0, "},
      {"measures",
       {"study", kBert, "--input", study.input, "--batch-tokens", "40", "--measures", "metrics"},
       "--measures: only " + first + " has positional, "},
      {"seed",
       {"study", kBert, "--input", study.input, "--batch-tokens", "40", "--seed", "5"},
       "--seed: got"},
      {"length",
       {"study", kBert, "--input", study.input, "--batch-tokens", "40", "--max-length", "20"},
       "--max-length: got"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string second = study.path(row.name);
    Words command = row.command;
    command.insert(command.end(), {"--shard", "2/2", "--state", second});
    REQUIRE(run_attnctl(command).status == 0);
    const RunResult result = merge({first, second});
    CHECK(result.status == 3);
    CHECK(result.err.find(second + ": belongs to another study: " + row.part) != std::string::npos);
    command = row.command;
    command.insert(command.end(), {"--checkpoint", first});
    CHECK(run_attnctl(command).status == 3);
  }
  const std::string copy = study.folder.write("copy.state", slurp(first)).string();
  CHECK(merge({first, copy}).err.find("block 0 is also in an earlier state file") != std::string::npos);
  const RunResult twice = merge({first, study.path("./first.state")});
  CHECK(twice.status == 2);
  CHECK_MESSAGE(twice.err.find("first.state: is given twice; give each state once") != std::string::npos,
                twice.err);
  CHECK(merge({first}).err.find("shard 2/2 is missing: ") != std::string::npos);
}

TEST_CASE("a state without a setting belongs to another study") {
  const study::StudyHeader header{.identity = {{"seed", "0"}, {"null_model", "1"}}};
  const study::StudyHeader older{.identity = {{"seed", "0"}}};
  CHECK_NOTHROW(study::require_same_study(header, "a", header, "b"));
  CHECK_THROWS_WITH_AS(study::require_same_study(older, "a", header, "b"),
                       doctest::Contains("--null-model: got no value, need \"1\" as in b"), Error);
  CHECK_THROWS_WITH_AS(study::require_same_study(header, "b", older, "a"),
                       doctest::Contains("--null-model: got \"1\", need no value as in a"), Error);
}

TEST_CASE("an error about measures names those that differ, after an error about the corpus") {
  const study::StudyHeader a{.identity = {{"measures", "metrics/1,special/1"}, {"corpus", "1"}}};
  const study::StudyHeader b{.identity = {{"measures", "metrics/1,pairs/2,roles/1"}, {"corpus", "1"}}};
  const study::StudyHeader c{.identity = {{"measures", "metrics/1"}, {"corpus", "2"}}};
  CHECK_THROWS_WITH_AS(
      study::require_same_study(a, "a", b, "b", true),
      "a: cannot be compared: --measures: b has no special, and only b has pairs, roles; use "
      "the same corpus and options",
      Error);
  CHECK_THROWS_WITH_AS(study::require_same_study(c, "c", a, "a"),
                       doctest::Contains("c: belongs to another study: corpus: got "), Error);
}

TEST_CASE("merge names the shards that are missing or not finished") {
  const Study study;
  const Words files = study.shards(4);
  RunOptions stopped;
  stopped.environment = with_fault("rename:INT:1", "cut.state");
  const std::string cut = study.path("cut.state");
  const Words options = {"--shard", "2/4", "--checkpoint", cut, "--checkpoint-every", "0", "--threads", "1"};
  REQUIRE(study.run(options, stopped).status == 130);
  const std::vector<std::pair<Words, std::string>> rows = {
      {{files[0], files[1], files[2]}, "shard 4/4 is missing: "},
      {{files[1]}, "shard 1/4 is missing, shard 3/4 is missing, shard 4/4 is missing: "},
      {{files[0], cut, files[2], files[3]}, "cut.state is not finished: "},
      {{files[0], cut, files[2]}, "cut.state is not finished, shard 4/4 is missing: "},
      {{cut}, "cut.state is not finished: "},
  };
  for (const auto& row : rows) {
    CAPTURE(row.second);
    const RunResult result = merge(row.first);
    CHECK(result.status == 3);
    CHECK(result.err.find(row.second) != std::string::npos);
    CHECK(result.err.find("blocks are done; give the finished states") != std::string::npos);
  }
  // The first two blocks of the merged state are neighbours, so the number of shards is unknown.
  const std::string half = study.path("half.state");
  REQUIRE(merge({files[0], files[1]}, {"--partial", "--state", half}).status == 0);
  CHECK(merge({half}).err.find("blocks are missing (the first: 2, 3, 6, 7, 10): ") != std::string::npos);
}

TEST_CASE("merge whose results cannot be written keeps the old state") {
  const Study study;
  const Words files = study.shards(2);
  const std::string state = study.folder.write("all.state", "old").string();
  RunOptions failing;
  failing.environment = with_fault("rename:EACCES", "out.json");
  Words words = {"merge", "--state", state, "-o", study.path("out.json")};
  words.insert(words.end(), files.begin(), files.end());
  CHECK(run_attnctl(words, failing).status == 4);
  CHECK(slurp(state) == "old");
  CHECK_FALSE(std::filesystem::exists(study.path("out.json")));
  CHECK(run_attnctl(words).status == 0);
  CHECK(merge({state}).out == slurp(study.path("out.json")));
}

TEST_CASE("merge of a folder without states is an error") {
  const TempDir folder;
  for (const Words& more : {Words{"--status"}, Words{}}) {
    const RunResult result = merge({folder.path().string()}, more);
    CHECK(result.status == 4);
    CHECK(result.out.empty());
    CHECK(result.err == "attnctl: " + folder.path().string() +
                            ": the folder has no *.state files; give another folder, or files\n");
  }
}

TEST_CASE("merge of a folder merges its states") {
  const Study study;
  const Words files = study.shards(2);
  const RunResult result = merge({study.folder.path().string()});
  CHECK(result.status == 0);
  CHECK(result.out == merge(files).out);
}

TEST_CASE("merge --status lists the states in a folder") {
  const Study study;
  const Words files = study.shards(2);
  RunOptions stopped;
  stopped.environment = with_fault("rename:INT:1", "cut.state");
  const Words options = {
      "--checkpoint", study.path("cut.state"), "--checkpoint-every", "0", "--threads", "1"};
  REQUIRE(study.run(options, stopped).status == 130);
  const std::string folder = study.folder.path().string();
  const RunResult result = run_attnctl({"merge", "--status", folder});
  REQUIRE(result.status == 0);
  const json document = json::parse(result.out);
  CHECK(schema_breaches(json::parse(cli::schema_text("states")), document) == Words{});
  const json& states = document["states"];
  REQUIRE(states.size() == 3);
  CHECK(states[0]["file"] == study.path("cut.state"));
  CHECK(states[0]["finished"] == false);
  CHECK(states[0]["of"].is_null());
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(states[i + 1]["file"] == files[i]);
    CHECK(states[i + 1]["model"] == kBert);
    CHECK(states[i + 1]["finished"] == true);
  }
  CHECK(states[1]["blocks"].get<int>() + states[2]["blocks"].get<int>() == states[1]["of"]);
  const RunResult csv = merge(files, {"--status", "--format", "csv", "--table", "states"});
  CHECK(csv.out.starts_with("file,model,blocks,of,finished\r\n"));
  CHECK(merge(files, {"--status", "--format", "text"}).out.starts_with("file "));
  CHECK(merge(files, {"--status", "--format", "json", "--width", "9"}).err.find("warning: ") !=
        std::string::npos);
  CHECK(merge(files, {"--status", "--state", study.path("new.state")}).status == 2);
}

TEST_CASE("damaged states are rejected") {
  const Study study;
  const std::string state = study.path("whole.state");
  REQUIRE(study.run({"--state", state}).status == 0);
  const std::string bytes = slurp(state);
  std::string altered = bytes;
  altered[bytes.size() / 2] = static_cast<char>(altered[bytes.size() / 2] ^ 1);
  std::string newer = bytes;
  newer[14] = 4;
  const std::vector<std::pair<std::string, const char*>> rows = {
      {bytes.substr(0, bytes.size() / 2), "the study state is damaged"},
      {altered, "checksum"},
      {bytes + "x", "bytes after the end"},
      {newer, "unsupported version 4"},
      {"{}", "is not a study state file"},
      {"", "is not a study state file"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.second);
    const RunResult result = merge({study.folder.write("bad.state", row.first).string()});
    CHECK(result.status == 3);
    CHECK(result.err.find(row.second) != std::string::npos);
  }
  CHECK(merge({study.path("absent.state")}).status == 4);
}

TEST_CASE("bad sentences stop a study, or are counted and listed") {
  const TempDir folder;
  const std::string conllu =
      "# text = the cat\n1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
      "1\tthe\t_\tDET\t_\t_\t9\tdet\t_\t_\n\n"
      "# only a comment\n\n"
      "1\ta\t_\tDET\t_\t_\t0\troot\t_\t_\n\n";
  struct Row {
    const char* file;
    std::string text;
    const char* where;
    Words more;
    int sentences;
  };
  const std::vector<Row> rows = {
      {"a.conllu", conllu, "a.conllu: line 5", {}, 2},
      {"a.txt", "a cat\nthe \xFF dog\n\na dog\n", "a.txt: line 2: got 0xff as byte 5 of the line", {}, 2},
      {"b.txt", "a cat\nthe cat sat on the mat and ran\na dog\n", "b.txt: line 2", {"--max-length", "6"}, 2},
      {"a.jsonl", "{\"text\": \"a cat\"}\n{\"txt\": 1}\n{\"ids\": [4, 5]}\n", "a.jsonl: line 2", {}, 2},
      {"b.jsonl", "{\"ids\": [4, 5]}\n{\"ids\": [4, 99999999]}\n", "b.jsonl: line 2", {}, 1},
      {"a.json", "[{\"text\": \"a cat\"}, 3, {\"tokens\": [\"the\"]}]", "a.json: /1", {}, 2},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const std::string file = folder.write(row.file, row.text).string();
    Words words = {"study", kBert, "--input", file, "--format", "json"};
    words.insert(words.end(), row.more.begin(), row.more.end());
    const RunResult refused = run_attnctl(words);
    CHECK(refused.status == 3);
    CHECK(refused.err.find(row.where) != std::string::npos);
    words.emplace_back("--skip-bad");
    const RunResult result = run_attnctl(words);
    REQUIRE(result.status == 0);
    const json document = json::parse(result.out);
    CHECK(document["corpus"]["sentences"] == row.sentences);
    CHECK(document["corpus"]["skipped"] == 1);
    CHECK(document["skipped"][0]["message"].get<std::string>().find(row.where) != std::string::npos);
    const std::string skipped =
        fmt::format("attnctl: warning: skipped 1 of {} sentences (--skip-bad); first: ", row.sentences + 1);
    CHECK_MESSAGE(result.err.find(skipped) != std::string::npos, result.err);
    CHECK_MESSAGE(result.err.find(row.where) != std::string::npos, result.err);
    CHECK(result.err.find("--skip-bad skips") == std::string::npos);
  }
  const RunResult none =
      run_attnctl({"study", kBert, "--input", folder.write("c.jsonl", "{}\n").string(), "--skip-bad"});
  CHECK(none.status == 3);
  CHECK(none.err.find("all sentences of the corpus are bad") != std::string::npos);
  const RunResult empty = run_attnctl({"study", kBert, "--input", "-", "--input-format", "txt"});
  CHECK_MESSAGE(empty.err.find("standard input: the corpus has no sentences") != std::string::npos,
                empty.err);
}

TEST_CASE("skipped sentences do not depend on the shards") {
  const TempDir folder;
  std::string text = corpus(40);
  for (std::size_t place = 0; (place = text.find(" mat and", place)) != std::string::npos; ++place)
    text[place + 1] = '\xFF';
  const std::string input = folder.write("bad.txt", text + "\xFF\n").string();
  const Words base = {"study", kBert, "--input", input, "--batch-tokens", "40", "--skip-bad"};
  Words whole = base;
  whole.insert(whole.end(), {"--format", "json"});
  const std::string wanted = run_attnctl(whole).out;
  CHECK(json::parse(wanted)["corpus"]["skipped"] > 1);
  Words files;
  for (const std::string shard : {"3/3", "1/3", "2/3"}) {
    files.push_back((folder.path() / shard.substr(0, 1)).string());
    Words words = base;
    words.insert(words.end(), {"--shard", shard, "--state", files.back()});
    REQUIRE(run_attnctl(words).status == 0);
  }
  CHECK(merge(files).out == wanted);
}

TEST_CASE("states of different kernels are merged with a warning") {
  const Study study;
  Words files;
  std::vector<std::string> kernels;
  for (const std::string kernel : {"Haswell", "Sandybridge"}) {
    files.push_back(study.path(kernel + ".state"));
    RunOptions options;
    options.environment = {{"OPENBLAS_CORETYPE", kernel}};
    const std::string shard = std::to_string(files.size()) + "/2";
    REQUIRE(study.run({"--shard", shard, "--state", files.back()}, options).status == 0);
    kernels.push_back(
        json::parse(merge({files.back()}, {"--partial", "--format", "json"}).out)["attnctl"]["kernel"]);
    CHECK(kernels.back().ends_with("/" + std::string(linalg::kernels().name)));  // attnctl's own kernels
  }
  const RunResult result = merge(files);
  CHECK(result.status == 0);
  if (kernels[0] == kernels[1]) {
    MESSAGE("skipped: this machine has only one kernel: " << kernels[0]);
    return;
  }
  CHECK(result.err.find("different kernels") != std::string::npos);
  const json document = json::parse(result.out);
  CHECK(document["attnctl"]["kernel"] ==
        std::min(kernels[0], kernels[1]) + "+" + std::max(kernels[0], kernels[1]));
  CHECK(document["warnings"][0]["code"] == "unlike_kernels");
}

TEST_CASE("contradictory options of a study are rejected") {
  const Study study;
  struct Row {
    Words more;
    const char* part;
  };
  const std::vector<Row> rows = {
      {{"--shard", "0/2", "--state", "x"}, "need I/N"},
      {{"--shard", "3/2", "--state", "x"}, "need I/N"},
      {{"--shard", "1", "--state", "x"}, "need I/N"},
      {{"--shard", "1/2"}, "needs --state"},
      {{"--shard", "1/2", "--state", "x", "-o", "y.json"}, "remove -o"},
      {{"--measures", "entropy"}, "unsupported \"entropy\""},
      {{"--input", "-", "--input-format", "txt", "--checkpoint", "x"}, "cannot be used with --shard"},
      {{"--max-length", "8", "--stride", "9"}, "--stride"},
      {{"the cat"}, "unexpected argument \"the cat\"; give texts in a file, with --input FILE"},
      {{"--plot", "relations.acuracy"}, "no measure has this column (did you mean \"relations.accuracy\"?)"},
      {{"--plot", "accuracy"}, "need relations.accuracy or trees.accuracy or coreference.accuracy"},
      {{"--plot", "relations.accuracy", "--format", "svg"},
       "this run does not have the measure syntax; it needs CoNLL-U with HEAD and DEPREL"},
      {{"--plot", "positional.weight", "--measures", "metrics", "--format", "svg"},
       "add positional to --measures"},
      {{"--plot", "entropy", "--measures", "positional", "--format", "svg"}, "add metrics to --measures"},
      {{"--plot", "relation.accuracy"}, "a study has no such table (did you mean \"relations\"?)"},
      {{"--plot", "relations.accuracy=nsubj to haed"}, "no heatmap can have a title with \"haed\""},
      {{"--plot", "relations.accuracy=to_haed"}, "no heatmap can have a title with \"to_haed\""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.part);
    const RunResult result = study.run(row.more);
    CHECK(result.status == 2);
    CHECK(result.err.find(row.part) != std::string::npos);
  }
}

TEST_CASE("a measure of --measures without data is an error, and is left out by default") {
  const TempDir folder;
  const std::string text = folder.write("a.txt", "the cat sat\n").string();
  const std::string object = folder.write("a.jsonl", "{\"text\": \"the cat sat\"}\n").string();
  const std::string bare = folder.write("a.conllu", "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n").string();
  const std::string syntax = "CoNLL-U with HEAD and DEPREL (a file .conllu, or --input-format conllu)";
  const std::string coreference = "CoNLL-U with Entity= in MISC, or JSON with \"mentions\"";
  const std::string relations = "relations (HEAD and DEPREL of CoNLL-U)";
  const std::string mentions = "mentions (Entity= in MISC of CoNLL-U, or \"mentions\" of JSON)";
  struct Row {
    std::string input, measure;
    int status;
    std::string message;
  };
  for (const Row& row :
       {Row{text, "syntax", 2, "syntax: got " + text + ", need " + syntax},
        Row{object, "syntax", 2, "syntax: got " + object + ", need " + syntax},
        Row{text, "coreference", 2, "coreference: got " + text + ", need " + coreference},
        Row{object, "coreference", 3, "--measures coreference: " + object + " has no " + mentions},
        Row{bare, "syntax", 3, "--measures syntax: " + bare + " has no " + relations}}) {
    CAPTURE(row.input);
    CAPTURE(row.measure);
    const RunResult result =
        run_attnctl({"study", kBert, "--input", row.input, "--measures", "metrics," + row.measure});
    CHECK(result.status == row.status);
    CHECK(result.out.empty());
    CHECK_MESSAGE(result.err.find(row.message) != std::string::npos, result.err);
  }
  for (const std::string& input : {text, object, bare}) {
    const RunResult result = run_attnctl({"study", kBert, "--input", input, "--format", "json"});
    CHECK(result.status == 0);
    CHECK_FALSE(json::parse(result.out).contains("relations"));
    std::string message;  // a format that cannot have the annotation needs no warning
    if (input == object) message = "coreference: " + input + " has no " + mentions + "\n";
    if (input == bare)
      message = "syntax, coreference: " + input + " has no " + relations + " and no " + mentions + "\n";
    if (!message.empty()) message.insert(0, "attnctl: warning: left out ");
    CHECK(result.err.empty() == message.empty());
    CHECK_MESSAGE(result.err.find(message) != std::string::npos, result.err);
  }
  // A file with annotation is enough.
  CHECK(run_attnctl({"study", kBert, "--input", text, "--input", ATTNCTL_SOURCE_DIR "/data/treebank.conllu",
                     "--measures", "syntax"})
            .status == 0);
}

TEST_CASE("a shard without data is merged with one that has data") {
  const TempDir folder;
  const std::string input = folder
                                .write("two.conllu",
                                       "1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_\n"
                                       "2\tcat\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
                                       "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n2\tdog\t_\t_\t_\t_\t_\t_\t_\t_\n\n")
                                .string();
  Words files;
  for (const std::string shard : {"1/2", "2/2"}) {  // of one sentence each
    files.push_back((folder.path() / shard.substr(0, 1)).string());
    const RunResult result = run_attnctl({"study", kBert, "--input", input, "--measures", "syntax",
                                          "--batch-tokens", "4", "--shard", shard, "--state", files.back()});
    CHECK(result.status == 0);
    CHECK(result.err.empty());
  }
  const RunResult both = merge(files);
  CHECK(both.status == 0);
  CHECK(both.err.find("has no relations") == std::string::npos);
  CHECK(json::parse(both.out)["summary"]["syntax"]["sentences"] == 1);
  const RunResult second = merge({files[1]}, {"--partial", "--format", "json"});
  CHECK(second.status == 0);
  CHECK(second.err.find("left out syntax: " + input + " has no relations") != std::string::npos);
  CHECK(second.err.find("warning: 1 of 2 blocks are done\n") != std::string::npos);
  CHECK(merge({files[1]}, {"--partial", "--format", "text"}).out.find("Warning: 1 of 2 blocks are done\n") !=
        std::string::npos);
}

TEST_CASE("a study counts the unknown tokens of its corpus once") {
  const TempDir folder;
  const std::string input = folder.write("a.txt", "\u8FD9 \u662F\nthe cat\n").string();
  // The measure rare reads the corpus twice.
  const RunResult result =
      run_attnctl({"study", kBert, "--input", input, "--measures", "metrics,rare", "--format", "json"});
  CHECK(result.status == 0);
  CHECK_MESSAGE(result.err.find("2 of 4 tokens are unknown") != std::string::npos, result.err);
  const json warnings = json::parse(result.out)["warnings"];
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0]["code"] == "many_unknown");
  CHECK(warnings[0]["count"] == 1);
  Words files;
  for (const std::string shard : {"1/2", "2/2"}) {  // of one sentence each
    files.push_back((folder.path() / shard.substr(0, 1)).string());
    const RunResult part = run_attnctl({"study", kBert, "--input", input, "--measures", "metrics",
                                        "--batch-tokens", "4", "--shard", shard, "--state", files.back()});
    CHECK(part.err.find("2 of 4 tokens are unknown") != std::string::npos);
  }
  CHECK(json::parse(merge(files).out)["warnings"] == warnings);
}

TEST_CASE("a study whose annotation is in one block says that nothing is held out") {
  const Words study = {"study",      kBert,
                       "--input",    ATTNCTL_SOURCE_DIR "/data/treebank.conllu",
                       "--measures", "syntax,coreference"};
  const auto run = [&](const Words& more) {
    Words words = study;
    words.insert(words.end(), more.begin(), more.end());
    return run_attnctl(words);
  };
  const std::string line = "Warning: the corpus has no held-out half";
  const RunResult page = run({"--format", "text", "--batch-tokens", "256"});
  CHECK(page.out.find(line) != std::string::npos);
  // The warning is above the tables, and the number that it suggests works.
  CHECK(page.out.find("give a smaller --batch-tokens, such as 42\n") < page.out.find("Relations:"));
  CHECK(run({"--format", "text", "--batch-tokens", "42"}).out.find(line) == std::string::npos);
  // No head is shown for a relation or a type of mentions that is not scored.
  for (const char* const row : {"\nall +0 +- +-", "\nnsubj +to_\\w+ +0 +- +-"})
    CHECK_MESSAGE(std::regex_search(page.out, std::regex(row)), page.out);
  CHECK(page.err.empty());
  CHECK(run({"--format", "text"}).out.find(line) == std::string::npos);  // small corpus, small blocks
  const RunResult result = run({"--format", "json", "--batch-tokens", "256"});
  CHECK(json::parse(result.out)["warnings"][0]["code"] == "no_held_out");
  CHECK(result.err.find("give a smaller --batch-tokens") != std::string::npos);
}

TEST_CASE("the text has the relations and mentions that only one half of the corpus has") {
  const std::string page =
      run_attnctl({"study", kBert, "--input", ATTNCTL_SOURCE_DIR "/data/treebank.conllu", "--batch-tokens",
                   "16", "--measures", "syntax,coreference", "--format", "text"})
          .out;
  // Even blocks, which choose the head, have no "cc" and no proper name.
  for (const char* const row : {"\ncc +to_head +[12] +- +- ", "\nproper +1 +- +- ",
                                "\n-: one half of the corpus has no such word pair\n",
                                "\n-: one half of the corpus has no such mention\n",
                                "\nNot shown: .*\\(rarer; JSON and CSV have them\\)\n"})
    CHECK_MESSAGE(std::regex_search(page, std::regex(row)), page);
}

TEST_CASE("a study says if no measure uses --null-model or --null-shuffle, and where the results are") {
  const Study study;
  const auto run = [&](const std::string& measures) {
    return study.run(
        {"--measures", measures, "--null-model", "1", "--null-shuffle", "1", "--format", "text"});
  };
  const std::string line =
      "--null-shuffle 1: in JSON and CSV, the columns shuffled and shuffled_held_out have";
  const RunResult unused = run("metrics");
  CHECK(unused.status == 0);
  CHECK(unused.err.find("--null-model: only the measure roles") != std::string::npos);
  CHECK(unused.err.find("--null-shuffle: only the measures repeats, rare, syntax, coreference use") !=
        std::string::npos);
  CHECK(unused.out.find(line) == std::string::npos);
  const RunResult used = run("repeats,roles");
  CHECK(used.err.empty());
  CHECK(used.out.find(line) != std::string::npos);
}

TEST_CASE("a study says why rollout is empty, and that the model limits --max-length") {
  const Study study;
  const RunResult later = study.run({"--measures", "rollout", "--layers", "1", "--format", "text"});
  CHECK(later.status == 0);
  CHECK(later.err ==
        "attnctl: warning: rollout is empty: it starts at layer 0, so select all heads of layer 0\n");
  CHECK(study.run({"--measures", "rollout", "--layers", "0", "--format", "text"}).err.empty());
  const RunResult longer = study.run({"--measures", "metrics", "--max-length", "129", "--format", "text"});
  CHECK(longer.status == 0);
  CHECK(longer.err ==
        "attnctl: warning: --max-length: the model has only 128 positions, which remain the limit\n");
  CHECK(study.run({"--measures", "metrics", "--max-length", "128", "--format", "text"}).err.empty());
}

/// Checks that each column of a table has a definition with a meaning.
void check_definitions(const Table& table) {
  CAPTURE(table.name);
  CHECK_FALSE(table.columns.empty());
  for (const Column& column : table.columns) {
    CAPTURE(column.name);
    REQUIRE(column.definition != nullptr);
    CHECK_FALSE(column.definition->meaning.empty());
  }
}

TEST_CASE("all columns of the tables of studies and plans have definitions") {
  const TempDir folder;
  const std::string state = (folder.path() / "all.state").string();
  const Words corpus = {kBert, "--input", ATTNCTL_SOURCE_DIR "/data/treebank.conllu", "--batch-tokens", "16"};
  Words words = {"study"};
  words.insert(words.end(), corpus.begin(), corpus.end());
  words.insert(words.end(), {"--state", state});
  REQUIRE(run_attnctl(words).status == 0);
  Pool pool(1);
  const Results results = study::study_results(study::StudyState::read(state), pool);
  CHECK(results.tables.size() == 17);
  std::ranges::for_each(results.tables, check_definitions);
  for (const Section& section : results.document.sections)
    if (const auto* const table = std::get_if<Table>(&section.items.data)) check_definitions(*table);
  for (const std::string name : {"shards", "choices", "trials"}) {
    words = {"plan", "--seconds", "0.1", "--format", "csv", "--table", name};
    words.insert(words.begin() + 1, corpus.begin(), corpus.end());
    const std::string csv = run_attnctl(words).out;
    std::vector<Column> columns;
    for (const std::string_view column : split(std::string_view(csv).substr(0, csv.find('\r')), ','))
      columns.emplace_back(column);
    check_definitions(study::with_definitions(make_table(name, columns, {})));
  }
}

TEST_CASE("the progress of a study shows its speed") {
  const Study study;
  const Words measures = {"--measures", "metrics,rare"};
  const RunResult result = study.run({"--progress", "always", "--format", "json", measures[0], measures[1]});
  CHECK(result.out == study.whole(measures));
  CHECK(result.err.starts_with("\r\x1b[Kfrequencies"));
  CHECK(result.err.find("\r\x1b[Kstudy") != std::string::npos);
  const std::string bytes = std::to_string(std::filesystem::file_size(study.input)) + " bytes";
  CHECK_MESSAGE(result.err.find("  0 %  0/" + bytes) != std::string::npos, result.err);
  CHECK(result.err.find("100 %") == std::string::npos);
  CHECK(result.err.ends_with("\r\x1b[K"));
}

TEST_CASE("tables and pages of a study") {
  const Study study;
  const RunResult csv = study.run({"--format", "csv", "--table", "heads", "-o", study.path("heads.csv")});
  CHECK(csv.status == 0);
  CHECK(slurp(study.path("heads.csv"))
            .starts_with(
                "model,component,layer,head,name,kv_head,rows,entropy,entropy_variance,entropy_count,"));
  CHECK(study.run({"--format", "csv", "-o", study.path("tables")}).status == 0);
  CHECK(std::filesystem::exists(study.path("tables") + "/distributions.csv"));
  const RunResult text = study.run({"--format", "text"});
  CHECK(text.out.find("12 heads over 60 sentences") != std::string::npos);
  const RunResult standard_input = run_attnctl(
      {"study", kBert, "--input", "-", "--batch-tokens", "40", "--format", "json"}, {.input = corpus(60)});
  CHECK(json::parse(standard_input.out)["heads"] == json::parse(study.whole())["heads"]);
}

TEST_CASE("JSON records of a study have the columns of the CSV tables, which begin with the model") {
  const Study study;
  const std::string treebank = ATTNCTL_SOURCE_DIR "/data/treebank.conllu";
  const auto run = [&](Words more) {
    more.insert(more.begin(), {"study", kBert, "--input", treebank, "--batch-tokens", "16", "--quiet"});
    const RunResult result = run_attnctl(more);
    REQUIRE(result.status == 0);
    return result.out;
  };
  const auto document = nlohmann::ordered_json::parse(run({"--format", "json"}));
  run({"--format", "csv", "-o", study.path("tables")});
  std::size_t tables = 0;
  for (const auto& entry : std::filesystem::directory_iterator(study.path("tables"))) {
    ++tables;
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    const std::string csv = slurp(entry.path());
    const auto& records = document.at(name);
    if (name == "massive_dimensions") continue;  // this model has no massive activations
    REQUIRE_FALSE(records.empty());
    std::string header = "model";
    for (const auto& [key, value] : records[0].items()) header += "," + key;
    if (name == "pairs") header = "model,measure,component,layer_a,head_a,name_a,layer_b,head_b,name_b,value";
    CHECK(csv.substr(0, csv.find('\r')) == header);
    CHECK(csv.find("\n" + kBert + ",") == csv.find('\n'));
    const bool flat = name != "pairs" && name != "distance";
    if (flat) CHECK(std::ranges::count(csv, '\n') == static_cast<std::ptrdiff_t>(1 + records.size()));
  }
  CHECK(tables == 17);
  const auto& relation = document.at("relations")[0];
  CHECK(relation["name"] == "0.0");
  CHECK((relation["component"].is_null() && relation["layer"] == 0 && relation["head"] == 0));
  for (const auto& tree : document.at("trees"))
    CHECK((tree["kind"] == "head") == (tree["name"].is_string() && tree["head"].is_number()));
  const auto& distance = document.at("distance")[0];
  for (const char* const key : {"first", "last", "pairs", "weight", "uniform"})
    CHECK(distance[key].size() == distance["first"].size());
}

TEST_CASE("windows cover a long sentence and keep the tokens around it") {
  const TempDir folder;
  const std::string file = folder.write("long.txt", "the cat sat on a mat and it was tired .\n").string();
  const auto tokens = [&](const Words& more) {
    Words words = {"study", kBert, "--input", file, "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return json::parse(run_attnctl(words).out)["corpus"]["tokens"].get<int>();
  };
  const RunResult page = run_attnctl({"study", kBert, "--input", file, "--max-length", "6", "--stride", "4",
                                      "--measures", "metrics", "--format", "text"});
  CHECK_MESSAGE(page.out.find("over 1 sentence (3 windows), 17 tokens\n") != std::string::npos, page.out);
  CHECK(tokens({}) == 13);
  // 11 tokens of text, windows with 4 tokens plus [CLS] and [SEP]. They start at 0, 4 and 8, then at 0, 2, 4,
  // 6 and 8.
  CHECK(tokens({"--max-length", "6", "--stride", "4"}) == 6 + 6 + 5);
  CHECK(tokens({"--max-length", "6", "--stride", "2"}) == 6 + 6 + 6 + 6 + 5);
  // A stride of more than 4 would skip text.
  const RunResult skips = run_attnctl(
      {"study", kBert, "--input", file, "--max-length", "6", "--stride", "5", "--format", "json"});
  CHECK(skips.status == 3);
  CHECK(skips.err.find(file + ": line 1: --stride: got 5, need at most 4") != std::string::npos);
  const RunResult small =
      run_attnctl({"study", kBert, "--input", file, "--max-length", "2", "--stride", "1"});
  CHECK(small.status == 3);
  CHECK(small.err.find(file + ": line 1: windows of 2 tokens have no space") != std::string::npos);
}

}  // namespace
}  // namespace attnctl::test

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/bytes.hpp"
#include "support/command_refusal.hpp"
#include "support/fault.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"
#include "support/zip_reader.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kGolden = "tests/golden/view/";
const std::string kSample = "data/patterns.npz";
const std::string kSentence = "The animal didn't cross the street because it was too tired.";

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string run_ok(const Words& words) {
  const RunResult result = run_attnctl(words);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return result.out;
}

/// Returns the document of `attnctl view`, which must match its schema.
json viewed(const Words& words) {
  json document = json::parse(run_ok(Words{"view"} + words));
  CHECK(schema_breaches(json::parse(cli::schema_text("view")), document) == Words{});
  return document;
}

std::string npy_of(const std::string& dtype, const std::string& shape, const std::string& data) {
  return npy("{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + ", }", data);
}

ZipPart floats(const std::string& name, const std::string& shape, const std::vector<float>& values) {
  return {.name = name + ".npy", .data = npy_of("<f4", shape, bytes_of(values))};
}

ZipPart integers(const std::string& name, const std::string& shape, const std::vector<std::int64_t>& values) {
  return {.name = name + ".npy", .data = npy_of("<i8", shape, bytes_of(values))};
}

const std::vector<float> kEven = {0.5, 0.5, 0.5, 0.5};  // a pattern [2, 2]

Words codes_of(const json& document) {
  Words codes;
  for (const json& warning : document["warnings"]) codes.push_back(warning["code"]);
  return codes;
}

TEST_CASE("view: patterns in every layout have the metrics that NumPy computes") {
  const json expected = json::parse(slurp(kGolden + "expected.json"));
  REQUIRE(expected.size() == 12);
  for (const auto& item : expected.items()) {
    const std::string file = item.key();
    const json& row = item.value();
    CAPTURE(file);
    const json document = viewed(Words{kGolden + file} + row["options"].get<Words>());
    REQUIRE(document["heads"].size() == row["heads"].size());
    std::map<std::string, json> found;
    for (const json& head : document["heads"]) found[head["name"]] = head;
    for (const json& head : row["heads"]) {
      const std::string name = head["name"];
      CAPTURE(name);
      REQUIRE(found.count(name) == 1);
      for (const auto& number : head.items()) {
        const std::string metric = number.key();
        const json& value = number.value();
        CAPTURE(metric);
        if (!value.is_number()) {
          CHECK(found[name][metric] == value);
        } else {
          REQUIRE(found[name][metric].is_number());
          CHECK(found[name][metric].get<double>() == doctest::Approx(value.get<double>()).epsilon(2e-6));
        }
      }
    }
    CHECK(codes_of(document) == Words{});
  }
}

TEST_CASE("view: the arrays of analyze give the same file again") {
  const std::vector<Words> runs = {
      {"data/tiny-bert", kSentence},
      {"data/tiny-bert", "--input", "data/sentences.txt", "--per-input"},
      {"data/tiny-llama", "The cat sat on the mat."},
      {"data/tiny-llama", "--ids", "5,6,7,8", "--layers", "1,3"},
      {"data/tiny-llama", "--ids", "5,6,7,8", "--heads", "0.1,2.3,2.0"},
      {"tests/golden/mistral", "--ids", "2,3,4,5,6,7,8,9,10,11,12,13,14"},
      {"tests/golden/bart", "--ids", "2,3,4", "--target-ids", "1,2"},
      {"tests/golden/bart", "--ids", "2,3,4", "--target-ids", "1,2", "--component", "cross"}};
  for (const Words& run : runs) {
    CAPTURE(fmt::format("{}", fmt::join(run, " ")));
    const TempDir folder;
    const std::string own = (folder.path() / "own.npz").string();
    const std::string back = (folder.path() / "back.npz").string();
    run_ok(Words{"analyze"} + run + Words{"--include", "metrics,patterns", "-o", own});
    Words view = {"view", own, "--model", run.front(), "-o", back};
    if (run.back() == "--per-input") view.emplace_back("--per-input");
    run_ok(view);
    CHECK(slurp(own) == slurp(back));
  }
}

TEST_CASE("view: the numbers of heads are those of analyze in every format") {
  const TempDir folder;
  const std::string own = (folder.path() / "own.npz").string();
  const Words analyze = {"analyze", "data/tiny-bert", kSentence};
  const Words view = {"view", own, "--model", "data/tiny-bert"};
  run_ok(analyze + Words{"-o", own});
  const Words pattern = {"--title", "", "--show", "0.3", "--format", "svg"};
  CHECK(run_ok(analyze + pattern) == run_ok(view + pattern));
  const Words plot = {"--title", "", "--plot", "entropy", "--format", "svg"};
  CHECK(run_ok(analyze + plot) == run_ok(view + plot));
  const Words rollout = {"--include", "rollout,flow", "--format", "csv", "--table", "flow"};
  CHECK(run_ok(analyze + rollout) == run_ok(view + rollout));
  const Words from = {"--from", "it", "--to", "animal", "--format", "csv"};
  CHECK(run_ok(analyze + from) == run_ok(view + from));
  for (const char* const table : {"heads", "patterns"}) {
    const Words csv = {"--include", "metrics,patterns", "--format", "csv", "--table", table};
    CHECK(run_ok(analyze + csv) == run_ok(view + csv));
  }
  const json document = viewed({own, "--model", "data/tiny-bert"});
  CHECK(document["heads"] == json::parse(run_ok(analyze + Words{"--include", "metrics"}))["heads"]);
  CHECK(document["inputs"][0]["tokens"][1] == "the");
  const std::string text = run_ok(view + Words{"--format", "text"});
  CHECK(text.starts_with(own + ": patterns of 3 layers, 12 heads\n1 input, 16 tokens\n0: [CLS] the animal"));
}

TEST_CASE("view: patterns that transformers computed have the metrics of analyze") {
  const json theirs = viewed({kSample})["heads"];
  const json ours =
      json::parse(run_ok({"analyze", "data/tiny-bert", kSentence, "--include", "metrics"}))["heads"];
  REQUIRE(theirs.size() == ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    for (const auto& cell : ours[i].items()) {
      const std::string key = cell.key();
      const json& value = cell.value();
      CAPTURE(key);
      if (value.is_number_float()) {
        CHECK(theirs[i][key].get<double>() == doctest::Approx(value.get<double>()).epsilon(1e-4));
      } else {
        CHECK(theirs[i][key] == value);
      }
    }
  }
}

TEST_CASE("view: words, pages and pictures of patterns with tokens") {
  const json words = viewed({kSample, "--by-word"});
  CHECK(words["inputs"][0]["unit"] == "word");
  CHECK(run_ok({"view", kSample, "--from", "it", "--to", "animal", "--format", "text"})
            .find("Strongest on animal") != std::string::npos);
  const std::string page = run_ok({"view", kSample, "--format", "html"});
  CHECK(page.find("because") != std::string::npos);
  CHECK(run_ok({"view", kSample, "--format", "svg"}).find(kSample) != std::string::npos);
  CHECK(run_ok({"view", kGolden + "two.npy", "--format", "html"}).starts_with("<!"));
}

TEST_CASE("view: tokens come from a file") {
  const TempDir folder;
  const std::string one = kGolden + "two.npy";
  const Words six = {"[CLS]", "a", "b", "c", "d", "[SEP]"};
  const std::string lines = folder.write("tokens.txt", "[CLS]\na\nb\r\nc\nd\n[SEP]\n").string();
  const std::string list = folder.write("tokens.json", json(six).dump()).string();
  const std::string lists = folder.write("two.json", json({six, six}).dump()).string();
  for (const std::string& file : {lines, list}) {
    const json document = viewed({one, "--tokens", file});
    CHECK(document["inputs"][0]["tokens"] == json(six));
    CHECK(document["heads"][0]["special_token"].get<double>() > 0);
  }
  CHECK(viewed({kGolden + "stack.npz", "--tokens", lists})["inputs"][1]["tokens"] == json(six));
  const auto refuses = [&](const Words& words, const std::string& part) {
    check_command_refuses(Words{"view"} + words, {.parts = {part}});
  };
  refuses({kGolden + "stack.npz", "--tokens", list}, "got the tokens of 1 input, need those of 2 inputs");
  refuses({one, "--tokens", folder.write("few.txt", "a\nb\n").string()}, "got 2 tokens, need 6");
  refuses({one, "--tokens", folder.write("odd.json", "[1, 2]").string()}, "need an array of strings");
  refuses({one, "--tokens", folder.write("bytes.txt", "\xff\n").string()}, "need UTF-8");
}

TEST_CASE("view: rows that are no distribution are warnings that name the first row") {
  const TempDir folder;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::string file =
      folder
          .write("p.npz", zip({floats("attention_0", "(2, 2, 2)", {0.5, 0.5, 0.5, 0.25, 0, 0, 0.5, 0.5}),
                               floats("attention_3", "(2, 2, 2)", {1, 0, 0.5, 0.5, 0.5, 0.5, kNaN, 1})}))
          .string();
  const json document = viewed({file});
  REQUIRE(codes_of(document) ==
          Words{"fully_masked_row", "non_finite_pattern", "row_sum", "non_finite_result"});
  CHECK(document["warnings"][0]["message"] == "input 0, head 0.1, query 0: all attention weights are 0");
  CHECK(document["warnings"][1]["message"] ==
        "input 0, head 3.1, query 1: the attention weights contain NaN or infinity");
  CHECK(document["warnings"][2]["message"] ==
        "input 0, head 0.0, query 1: the attention weights sum to 0.75 instead of 1");
  CHECK(document["heads"][1]["rows"] == 1);
  CHECK(document["heads"][3]["entropy"].is_null());
  CHECK(run_attnctl({"view", file, "--strict"}).status == 6);
  // One float16 step below 1 is a rounding error, not a warning.
  CHECK(codes_of(viewed({kGolden + "stack.npz"})) == Words{});
}

TEST_CASE("view: heads and layers that the file has can be selected") {
  const TempDir folder;
  const std::string file =
      folder.write("p.npz", zip({floats("layer_2", "(2, 2)", kEven), floats("layer_5", "(2, 2)", kEven)}))
          .string();
  CHECK(viewed({file, "--layers", "5"})["heads"][0]["name"] == "5.0");
  check_command_refuses({"view", file, "--layers", "3"}, {.status = Status::usage, .parts = {"selected"}});
  check_command_refuses({"view", file, "--include", "rollout"},
                        {.status = Status::usage, .parts = {"need the patterns of all layers and heads"}});
  const std::string some = (folder.path() / "some.npz").string();
  run_ok({"analyze", "data/tiny-llama", "--ids", "5,6,7", "--heads", "0.1,2.3", "-o", some});
  CHECK(viewed({some})["source"]["heads"] == 2);
  check_command_refuses({"view", some, "--heads", "0.0"},
                        {.status = Status::usage, .parts = {"has no pattern of head 0.0"}});
}

struct ViewRefusal {
  std::string what;
  std::vector<ZipPart> arrays;
  std::vector<std::string> parts;
  Words options = {};
  Status status = Status::bad_input;
};

TEST_CASE("view: arrays that are not patterns are refused with what was found and what is needed") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<ViewRefusal> rows = {
      {"no array",
       {integers("ids_0", "(2,)", {1, 2})},
       {"found no attention patterns", "ids_0 [2]", "np.savez"}},
      {"several unknown arrays",
       {floats("a", "(2, 2)", kEven), floats("b", "(2, 2)", kEven)},
       {"a [2, 2], b [2, 2]", "--array"}},
      {"a vector", {floats("layer_0", "(4,)", kEven)}, {"\"layer_0\": got shape [4], need [batch, heads"}},
      {"six axes", {floats("patterns", "(1, 1, 1, 1, 2, 2)", kEven)}, {"got shape [1, 1, 1, 1, 2, 2]"}},
      {"no query", {floats("patterns", "(0, 2, 2)", {})}, {"got shape [0, 2, 2], which has no patterns"}},
      {"a missing name",
       {floats("a", "(2, 2)", kEven)},
       {"there is no array \"b\"; got the arrays a"},
       {"--array", "b"}},
      {"a missing layer",
       {floats("a", "(2, 2)", kEven)},
       {"no array has the name \"b#\""},
       {"--array", "b#"}},
      {"the same layer twice",
       {floats("layer_0", "(2, 2)", kEven), floats("layer_00", "(2, 2)", kEven)},
       {"another array has the same number"}},
      {"other queries in another layer",
       {floats("layer_0", "(2, 2)", kEven), floats("layer_1", "(1, 2)", {0.5, 0.5})},
       {"\"layer_1\": got shape [1, 2], which does not fit layer_0 of shape [2, 2]"}},
      {"another batch in another layer",
       {floats("layer_0", "(2, 1, 2, 2)", {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}),
        floats("layer_1", "(1, 1, 2, 2)", kEven)},
       {"\"layer_1\": got 1 input, but layer_0 has 2"}},
      {"a missing input", {floats("pattern_1", "(1, 1, 2, 2)", kEven)}, {"the array of input 0 is missing"}},
      {"no axis of layers", {floats("pattern_0", "(2, 2)", kEven)}, {"need [layers, heads, queries, keys]"}},
      {"no list of heads", {floats("pattern_0", "(1, 2, 2)", kEven)}, {"an array heads [selected, 2]"}},
      {"other layers",
       {floats("pattern_0", "(1, 1, 2, 2)", kEven), integers("layers", "(2,)", {0, 1})},
       {"\"layers\": got shape [2], need [1]"}},
      {"a negative layer",
       {floats("pattern_0", "(1, 1, 2, 2)", kEven), integers("layers", "(1,)", {-1})},
       {"got head -1.0"}},
      {"layers that descend",
       {floats("pattern_0", "(2, 1, 1, 2)", kEven), integers("layers", "(2,)", {1, 0})},
       {"must be ascending"}},
      {"a negative weight",
       {floats("layer_1", "(2, 2)", {0.5, 0.5, 1.5, -0.5})},
       {"input 0, head 1.0, query 1: got the weight -0.5, need one from 0 to 1", "--softmax"}},
      {"a weight above 1",
       {floats("layer_1", "(2, 2)", {0.5, 0.5, 0, 1e30F})},
       {"input 0, head 1.0, query 1: got the weight 1e+30", "--softmax"}},
      {"scores", {floats("layer_0", "(2, 2)", {0, -kInfinity, 1, 2})}, {"got the weight -inf", "--softmax"}},
      {"too few tokens",
       {floats("layer_0", "(2, 2)", kEven), {.name = "tokens.npy", .data = npy_of("|S1", "(3,)", "abc")}},
       {"\"tokens\": got shape [3], need [2], the number of tokens"}},
      {"tokens that are not UTF-8",
       {floats("layer_0", "(2, 2)", kEven), {.name = "tokens.npy", .data = npy_of("|S1", "(2,)", "a\xff")}},
       {"need UTF-8"}},
      {"characters that do not exist",
       {floats("layer_0", "(2, 2)", kEven),
        {.name = "tokens.npy", .data = npy_of("<U1", "(2,)", std::string("a\0\0\0\0\0\x11\0", 8))}},
       {"got the character 0x110000"}},
      {"a mask that hides all tokens",
       {floats("layer_0", "(2, 2)", kEven), integers("attention_mask", "(2,)", {0, 0})},
       {"input 0 has no token"}},
      {"analyses that need a model",
       {floats("layer_0", "(2, 2)", kEven)},
       {"view has only patterns", "metrics, patterns, rollout, flow"},
       {"--include", "sinks"},
       Status::usage},
      {"a layer without end",
       {floats("layer_99999", "(2, 2)", kEven)},
       {"need a layer below 10000"},
       {},
       Status::limit},
  };
  for (const ViewRefusal& row : rows) {
    CAPTURE(row.what);
    const TempDir folder;
    const std::string file = folder.write("p.npz", zip(row.arrays)).string();
    check_command_refuses(Words{"view", file} + row.options, {.status = row.status, .parts = row.parts});
  }
}

TEST_CASE("view: sizes are checked before memory is allocated") {
  const TempDir folder;
  // An array of no elements with a long axis, and the extents of a large array without its data.
  const std::string empty =
      folder.write("e.npy", npy_of("<f4", "(1000000000, 1000000000, 0, 2)", "")).string();
  check_command_refuses({"view", empty}, {.status = Status::limit, .parts = {"heads"}});
  const std::string cut = folder.write("c.npy", npy_of("<f4", "(12, 12, 4096, 4096)", "1234")).string();
  check_command_refuses({"view", cut}, {.parts = {"got 4 bytes of data"}});
  // More heads than a model has: 200,000 patterns of one weight.
  const std::string many =
      folder.write("m.npy", npy_of("<f4", "(200000, 1, 1)", std::string(800'000, '\0'))).string();
  check_command_refuses({"view", many}, {.status = Status::limit, .parts = {"need at most 100000 heads"}});
  check_command_refuses({"view", kSample, "--limit", "100"}, {.status = Status::limit, .parts = {"--limit"}});
  check_command_refuses({"view", kSample, "--memory", "1M"},
                        {.status = Status::limit, .parts = {"--memory"}});
}

TEST_CASE("view: an input file is never replaced") {
  const TempDir folder;
  const std::string file = folder.write("p.npz", zip({floats("layer_0", "(2, 2)", kEven)})).string();
  const std::string before = slurp(file);
  CHECK(run_attnctl({"view", file, "-o", file}).status == 2);
  CHECK(slurp(file) == before);
  CHECK(run_attnctl({"view", (folder.path() / "none.npz").string()}).status == 4);
}

}  // namespace
}  // namespace attnctl::test

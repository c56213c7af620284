// Bad inputs through the real binary: each case checks the exit status, the one-line error, and that the
// output is unchanged. The numbers are those of the list of bad inputs. Files in weight formats (1 to 41, 68
// to 86) are tested in tests/checkpoint.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/bytes.hpp"
#include "support/command_refusal.hpp"
#include "support/fault.hpp"
#include "support/run.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl::test;
using attnctl::Status;
using nlohmann::json;

namespace {

const std::string kLlama = "tests/golden/llama";  // 2 layers, vocabulary below 64
const std::string kConfig = R"({"model_type": "attention", "heads": 1, "causal": true})";
const std::string kTemporary = "/.attnctl-";  // prefix of an output before it is committed
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns a copy of the golden Llama with some configuration keys replaced.
std::string llama_with(const TempDir& folder, const std::string& patch) {
  const std::filesystem::path copy = folder.path() / "model";
  std::filesystem::copy(kLlama, copy, std::filesystem::copy_options::recursive);
  json config = json::parse(slurp(copy / "config.json"));
  config.merge_patch(json::parse(patch));
  folder.write("model/config.json", config.dump());
  return copy.string();
}

std::string array(const std::string& dtype, const std::string& shape, const std::string& data) {
  return npy("{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + ", }", data);
}

/// An `analyze` command on one head of width 2 and embeddings [rows, 2], with W_q = weight and W_v = W_o =
/// value I. Masks and all other settings are options.
struct BareRun {
  TempDir folder;
  std::vector<std::string> arguments;

  explicit BareRun(const std::vector<float>& embeddings, std::vector<float> weight = {1, 0, 0, 1},
                   float value = 1) {
    const std::string scaled = array("<f4", "(2, 2)", bytes_of<float>({value, 0, 0, value}));
    const std::string matrix = array("<f4", "(2, 2)", bytes_of(weight));
    const std::string identity = array("<f4", "(2, 2)", bytes_of<float>({1, 0, 0, 1}));
    const auto weights = folder.write("w.npz", zip({{.name = "W_q.npy", .data = matrix},
                                                    {.name = "W_k.npy", .data = identity},
                                                    {.name = "W_v.npy", .data = scaled},
                                                    {.name = "W_o.npy", .data = scaled}}));
    const auto config = folder.write("config.json", kConfig);
    const auto x = folder.write(
        "x.npy", array("<f4", "(" + std::to_string(embeddings.size() / 2) + ", 2)", bytes_of(embeddings)));
    arguments = {"analyze",  weights.string(), "--config",           config.string(), "--embeddings",
                 x.string(), "--include",      "metrics,patterns,z", "--format",      "json"};
  }
  BareRun& with(const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return *this;
  }
  /// Replaces the value of an option, or adds the option.
  BareRun& set(const std::string& option, const std::string& value) {
    const auto place = std::ranges::find(arguments, option);
    if (place == arguments.end()) return with({option, value});
    *(place + 1) = value;
    return *this;
  }
  std::string file(const std::string& name, const std::string& bytes) const {
    return folder.write(name, bytes).string();
  }
};

int warning_count(const json& document, const std::string& code) {
  for (const json& warning : document["warnings"]) {
    if (warning["code"] == code) return warning["count"];
  }
  return 0;
}

bool has_warning(const json& document, const std::string& code) {
  return warning_count(document, code) > 0;
}

/// Returns the number of nulls in an array, at any depth.
int nulls_in(const json& values) {
  if (!values.is_array()) return values.is_null() ? 1 : 0;
  int count = 0;
  for (const json& value : values) count += nulls_in(value);
  return count;
}

/// Runs a command that must fail, and checks that its pipe receives no part of the result.
void check_pipe_stays_empty(const std::vector<std::string>& arguments) {
  const RunResult result = run_attnctl(arguments);
  CHECK_MESSAGE(result.status == static_cast<int>(Status::non_finite), result.err);
  CHECK_MESSAGE(result.err.find("--strict") != std::string::npos, result.err);
  CHECK(result.out.empty());
}

}  // namespace

TEST_CASE("bad configurations are rejected") {
  struct Row {
    int kind;
    std::string patch;
    Status status;
    std::string says;
  };
  for (const Row& row : {
           Row{87, R"({"num_attention_heads": 0})", Status::bad_input, "/num_attention_heads"},
           Row{87, R"({"num_attention_heads": -1})", Status::bad_input, "/num_attention_heads"},
           Row{88, R"({"head_dim": null, "num_attention_heads": 5, "num_key_value_heads": 5})",
               Status::bad_input, "multiple"},
           Row{89, R"({"num_key_value_heads": 4})", Status::bad_input, "multiple"},
           Row{90, R"({"num_hidden_layers": 1000000000})", Status::limit, "/num_hidden_layers"},
           Row{91, R"({"rms_norm_eps": 0})", Status::bad_input, "/rms_norm_eps"},
           Row{92, R"({"vocab_size": 12})", Status::bad_input, "12"},
           Row{93, R"({"model_type": "mamba"})", Status::bad_input, "unsupported \"mamba\""},
           Row{87, R"({"rope_parameters": {"a\tb": {"x": 1}}})", Status::bad_input,
               R"(/rope_parameters/a\x09b: unsupported)"},
       }) {
    CAPTURE(row.kind);
    CAPTURE(row.patch);
    const TempDir folder;
    check_command_refuses({"analyze", llama_with(folder, row.patch), "--ids", "1"},
                          {.status = row.status, .parts = {row.says}});
  }
}

TEST_CASE("bad tokens are rejected") {
  const TempDir folder;
  const auto lines = [&](const std::string& text) { return folder.write("x.jsonl", text).string(); };
  struct Row {
    int kind;
    std::vector<std::string> arguments;
    std::string says;
  };
  std::string long_list = "1";
  for (int i = 0; i < 300; ++i) long_list += ",1";
  for (const Row& row : {
           Row{102, {"--ids", "1,-1"}, "-1"},
           Row{103, {"--ids", "1,999999"}, "999999"},
           Row{104, {"--ids", "1,2.5"}, "2.5"},
           Row{104, {"--input", lines("{\"ids\": [1, 2.5]}")}, "/ids/1"},
           Row{105, {"--input", folder.write("empty.jsonl", "{\"ids\": []}").string()}, "empty sequence"},
           Row{106, {"--ids", long_list}, "301"},
       }) {
    CAPTURE(row.kind);
    std::vector<std::string> command = {"analyze", kLlama};
    command.insert(command.end(), row.arguments.begin(), row.arguments.end());
    check_command_refuses(command, {.parts = {row.says}});
  }
  check_command_refuses(
      {"analyze", kLlama, "--ids", "1,2,3", "--limit", "10"},
      {.status = Status::limit, .parts = {"--limit allows 10 values", "bytes"}});  // kind 107
}

TEST_CASE("bad masks are rejected") {
  struct Row {
    int kind;
    std::string option;
    std::string bytes;
    std::string says;
  };
  const std::string yes(9, '\1');
  for (const Row& row : {
           Row{114, "--mask", array("|b1", "(2, 3)", yes.substr(0, 6)), "[2, 3]"},
           Row{114, "--mask", array("|b1", "(9,)", yes), "[9]"},
           Row{114, "--mask", array("|b1", "(2, 3, 3)", yes + yes), "[2, 3, 3]"},
           Row{114, "--mask", array("|b1", "(1, 4, 3, 3)", yes + yes + yes + yes), "4"},
           Row{114, "--key-mask", array("|b1", "(1, 4)", yes.substr(0, 4)), "[1, 4]"},
           Row{115, "--mask", array("|u1", "(3, 3)", "\1\1\1\1\2\1\1\1\1"), "of the mask is 2"},
           Row{115, "--mask", array("<f4", "(3, 3)", bytes_of<float>({0, 0, 0, 0, kNaN, 0, 0, 0, 0})), "nan"},
           Row{115, "--key-mask", array("|u1", "(1, 3)", "\1\2\1"), "of the mask is 2"},
       }) {
    CAPTURE(row.kind);
    CAPTURE(row.says);
    BareRun run({1, 0, 0, 1, 1, 1});
    const std::string mask = run.file("mask.npy", row.bytes);
    check_command_refuses(run.with({row.option, mask}).arguments, {.parts = {row.says}});
  }
}

TEST_CASE("numbers that are not finite are counted, and status 6 under --strict") {
  struct Row {
    int kind;
    std::string what;
    std::vector<float> embeddings;
    std::vector<float> weight;
    std::string code;
  };
  for (const Row& row : {
           Row{116, "NaN weight", {1, 0, 0, 1}, {1, kNaN, 0, 1}, "non_finite_weight"},
           Row{116, "infinite weight", {1, 0, 0, 1}, {1, 0, 0, kInfinity}, "non_finite_weight"},
           Row{122, "NaN embedding", {kNaN, 0, 0, 1}, {1, 0, 0, 1}, "non_finite_pattern"},
       }) {
    CAPTURE(row.what);
    BareRun run(row.embeddings, row.weight);
    const RunResult result = run_attnctl(run.arguments);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    const json document = json::parse(result.out);  // fails if the text contains NaN
    CHECK(has_warning(document, row.code));
    CHECK(result.out.find("null") != std::string::npos);
    check_command_refuses(run.with({"--strict"}).arguments,
                          {.status = Status::non_finite, .parts = {"--strict"}});
  }
}

TEST_CASE("results that overflow float32 are counted, and status 6 under --strict") {
  struct Row {
    std::string include;
    std::string section;
    std::vector<std::string> numbers;  // names of all numbers of a record
    float value;                       // W_v and W_o
  };
  for (const Row& row : {
           Row{"output", "arrays", {"value"}, 1e20F},
           Row{"values", "arrays", {"value"}, 3e38F},
           Row{"z", "arrays", {"value"}, 3e38F},
           Row{"circuits", "circuits", {"value"}, 1e20F},
           Row{"directions", "principal_directions", {"singular_values", "left", "right"}, 1e20F},
           Row{"contributions",
               "contributions",
               {"norm", "norm_share", "cosine", "share", "explained", "whole_norm", "stream_norm"},
               1e20F},
           Row{"mixing", "mixing", {"mix", "keep", "ratio"}, 1e20F},
           Row{"sinks", "sinks", {"write_ratio"}, 1e20F},
       }) {
    CAPTURE(row.include);
    const std::vector<float> embeddings{2, 0, 0, 3, 2, 2};
    const std::vector<float> identity{1, 0, 0, 1};
    BareRun run(embeddings, identity, row.value);
    run.set("--include", row.include).set("--output-rank", "none");
    const RunResult result = run_attnctl(run.arguments);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK_MESSAGE(result.err.find("NaN or infinite") != std::string::npos, result.err);
    const json document = json::parse(result.out);
    int nulls = 0;
    for (const json& record : document[row.section]) {
      for (const std::string& name : row.numbers) nulls += nulls_in(record[name]);
    }
    CHECK(nulls > 0);
    CHECK(warning_count(document, "non_finite_result") == nulls);
    check_command_refuses(run.with({"--strict"}).arguments,
                          {.status = Status::non_finite, .parts = {"--strict", row.section}});

    BareRun tame(embeddings, identity);
    tame.set("--include", row.include).set("--output-rank", "none");
    const RunResult finite = run_attnctl(tame.with({"--strict"}).arguments);
    CHECK_MESSAGE(finite.status == 0, finite.err);
  }
}

TEST_CASE("under --strict no byte of a non-finite result reaches a pipe in any format") {
  const std::vector<float> long_input(2 * 200, 2);  // longer than the buffer of an output
  struct Row {
    std::string format, include;
    std::vector<std::string> more = {};
  };
  for (const Row& row :
       {Row{"json", "patterns,output"}, Row{"jsonl", "patterns,output"}, Row{"npz", "patterns,output"},
        Row{"csv", "patterns,mixing", {"--table", "mixing"}}, Row{"text", "contributions"},
        Row{"svg", "contributions"}, Row{"png", "contributions"}}) {
    CAPTURE(row.format);
    BareRun run(long_input, {1, 0, 0, 1}, 1e20F);
    run.set("--format", row.format).set("--include", row.include).with(row.more);
    const RunResult result = run_attnctl(run.arguments);
    CHECK_MESSAGE(result.status == 0, result.err);
    CHECK_MESSAGE(result.err.find("NaN or infinite") != std::string::npos, result.err);
    CHECK(!result.out.empty());
    check_pipe_stays_empty(run.with({"--strict"}).arguments);
  }
}

TEST_CASE("undefined numbers are not counted as non-finite ones") {
  const TempDir folder;
  const std::string all =
      "metrics,weights,directions,scores,z,output,rollout,flow,contributions,mixing,largest_value,sinks,"
      "activations,"
      "subspaces,composition,map";
  const std::string with_tables =
      "metrics,patterns,weights,contributions,mixing,largest_value,sinks,activations,"
      "subspaces,composition,map";
  for (const std::vector<std::string>& more : {
           std::vector<std::string>{"--include", all, "--format", "json"},
           {"--include", all, "--layers", "0", "--format", "jsonl"},
           {"--include", all, "-o", (folder.path() / "all.npz").string()},
           {"--include", with_tables, "--layers", "1", "--format", "csv", "-o", folder.path().string()},
           {"--include", with_tables, "--format", "text"},
       }) {
    CAPTURE(more);
    std::vector<std::string> command = {"analyze", kLlama, "--ids", "1,2,3,4", "--strict"};
    command.insert(command.end(), more.begin(), more.end());
    const RunResult result = run_attnctl(command);
    CHECK_MESSAGE(result.status == 0, result.err);
    CHECK(result.out.find("non_finite") == std::string::npos);
  }
}

TEST_CASE("a row whose scores overflow is not finite, and not masked") {
  // q = -1e20 x: every score is -1.4e40.
  BareRun run({1e10F, 1e10F, 1e10F, 1e10F}, {-1e20F, 0, 0, -1e20F});
  const RunResult result = run_attnctl(run.arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  CHECK(warning_count(document, "non_finite_pattern") == 2);
  CHECK(!has_warning(document, "fully_masked_row"));
  CHECK(nulls_in(document["patterns"][0]["weight"]) == 3);  // the hidden key has weight 0
  CHECK(document["heads"][0]["rows"] == 2);
  check_command_refuses(run.with({"--strict"}).arguments,
                        {.status = Status::non_finite, .parts = {"--strict", "query 0"}});
}

TEST_CASE("a score of a visible key that overflows to -inf is counted if scores are written") {
  // Query 0 sees one key, whose score overflows. Query 1 also sees a key with a finite score.
  BareRun run({1e30F, 0, 1e9F, 1e9F}, {-1, 0, 0, -1});
  const RunResult result = run_attnctl(run.set("--include", "scores").arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  CHECK(warning_count(document, "non_finite_pattern") == 1);
  CHECK(warning_count(document, "non_finite_score") == 1);
  CHECK(warning_count(document, "non_finite_result") == 0);  // -inf marks hidden keys in this array
}

TEST_CASE("kind 116: the tensor and the first index are named") {
  const BareRun run({1, 0, 0, 1}, {1, kNaN, 0, 1});
  const RunResult result = run_attnctl(run.arguments);
  CHECK_MESSAGE(result.err.find("W_q") != std::string::npos, result.err);
}

TEST_CASE("kind 116: a model whose results are all NaN does not pass verify") {
  const BareRun run({1, 0, 0, 1, 1, 1}, {kNaN, kNaN, kNaN, kNaN});
  for (const std::string causal : {"true", "false"}) {
    const std::string config =
        run.file(causal + ".json", R"({"model_type": "attention", "heads": 1, "causal": )" + causal + "}");
    const RunResult result = run_attnctl({"verify", run.arguments[1], "--config", config, "--embeddings",
                                          run.arguments[5], "--format", "json"});
    CHECK_MESSAGE(result.status == 7, result.err);
    const json document = json::parse(result.out);
    CHECK(document["ok"] == false);
    CHECK(document["comparisons"].size() == 4);
    for (const json& each : document["comparisons"]) {
      CHECK(each["max_difference"].is_null());
      CHECK(each["ok"] == false);
    }
  }
}

TEST_CASE("kinds 117, 118: a row without a visible key is zeros and flagged, a hidden NaN does not leak") {
  BareRun run({1, 0, kNaN, 1, 1, 1});
  const std::string keys = run.file("keys.npy", array("|b1", "(1, 3)", std::string("\1\0\1", 3)));
  const std::string mask = run.file("mask.npy", array("|b1", "(3, 3)", std::string("\0\0\0\1\1\1\1\1\1", 9)));
  const RunResult result = run_attnctl(run.with({"--key-mask", keys, "--mask", mask}).arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  CHECK(has_warning(document, "fully_masked_row"));
  const json& pattern = document["patterns"][0]["weight"];
  CHECK(pattern[0] == json({0, 0, 0}));
  CHECK(pattern[2][1] == 0);
  CHECK(pattern[2][0].get<double>() + pattern[2][2].get<double>() == doctest::Approx(1));
  const json& z = document["arrays"][0]["value"];
  CHECK(z[2][0].is_number());
  CHECK(document["heads"][0]["rows"] == 2);
}

TEST_CASE("the picture of contributions has cells without a value if no head has a norm") {
  BareRun run({1, 0, 0, 1, 1, 1});
  const std::string hidden = run.file("mask.npy", array("|b1", "(1, 3)", std::string(3, '\0')));
  run.set("--include", "contributions").set("--key-mask", hidden).set("--format", "svg");
  const RunResult result = run_attnctl(run.arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(result.out.find(">0, 0: no value<") != std::string::npos);
}

TEST_CASE("kinds 119, 121: scores of 1e30 and rows without variance work") {
  const BareRun run({1e15F, 0, 1e15F, 1e15F, -1e15F, 1e15F});
  const RunResult result = run_attnctl(run.arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  for (const json& row : document["patterns"][0]["weight"]) {
    double sum = 0;
    for (const json& weight : row) sum += weight.get<double>();
    CHECK(sum == doctest::Approx(1));
  }
  // In a bert with constant embeddings, every norm has a variance of zero.
  const RunResult zeros =
      run_attnctl({"analyze", "tests/golden/bert", "--embeddings",
                   run.file("zeros.npy", array("<f4", "(2, 24)", std::string(2 * 24 * 4, '\0'))), "--include",
                   "metrics", "--strict", "--format", "json"});
  CHECK_MESSAGE(zeros.status == 0, zeros.err);
}

TEST_CASE("outputs that cannot be written leave the old file") {
  const std::vector<std::string> command = {"analyze", kLlama, "--ids", "1,2,3,4", "--format", "json"};
  struct Row {
    int kind;
    std::string fault;
    std::string path = kTemporary;
  };
  for (const Row& row : {
           Row{128, "write:ENOSPC:0"},
           Row{128, "write:ENOSPC:1000"},
           Row{129, "fsync:EIO"},
           Row{129, "close:EIO"},
           Row{131, "create:EROFS"},
           Row{132, "rename:EACCES", "out.json"},
       }) {
    CAPTURE(row.kind);
    CAPTURE(row.fault);
    RunOptions run;
    run.environment = with_fault(row.fault, row.path);
    check_command_refuses(command, {.status = Status::environment, .parts = {"out.json"}, .run = run});
  }
  // Kind 127.
  const RunResult full =
      run_attnctl({"analyze", kLlama, "--ids", "1,2,3,4", "--format", "json", "-o", "/dev/full"});
  CHECK(full.status == 4);
  CHECK_MESSAGE(full.err.find("/dev/full") != std::string::npos, full.err);
}

TEST_CASE("kind 128: npz and csv leave nothing half-written") {
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--format", "npz", "-o"},
                                               std::vector<std::string>{"--format", "csv", "-o"}}) {
    const TempDir folder;
    std::vector<std::string> command = {"analyze", kLlama, "--ids", "1,2,3,4"};
    command.insert(command.end(), more.begin(), more.end());
    command.push_back((folder.path() / "out").string());
    RunOptions run;
    run.environment = with_fault("write:ENOSPC:1000", kTemporary);
    const RunResult result = run_attnctl(command, run);
    CHECK(result.status == 4);
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}

TEST_CASE("an error is one line of at most 500 characters with its file and its advice") {
  const TempDir folder;
  const std::string name(10'000, 'x');
  const std::string path = "/" + name.substr(0, 3990) + "/a.json";
  const std::string digits(309, '9');
  const std::string option = folder.write("o.toml", "measures = \"" + std::string(1'000'000, 'x') + "\"\n");
  const std::string header = R"({")" + name + R"(":{"dtype":"F32","shape":[3],"data_offsets":[0,4]}})";
  const std::string weights =
      folder.write("w.safetensors", bytes_of<std::uint64_t>({header.size()}) + header + std::string(4, '\0'));
  struct Row {
    std::vector<std::string> arguments;
    std::string begin, end;
  };
  for (const Row& row : {
           Row{{"analyze", path, "--ids", "1"},
               "attnctl: /xxx",
               "xx/a.json: cannot open: File name too long\n"},
           Row{{"weights", weights}, "attnctl: " + weights + ": ", "\n"},
           Row{{"analyze", kLlama, "--ids", "1", "--font-size", digits + digits},
               "attnctl: --font-size: got 99",
               "99, need a number from 1 to 100; attnctl analyze --help shows the options\n"},
           Row{{"study", "data/tiny-bert", "--input", "data/treebank.conllu", "--config-file", option},
               "attnctl: --measures: unsupported \"xx",
               "xx\"; known: metrics, positional, special, repeats, rare, distance, pairs, rollout, "
               "residual, syntax, coreference, probe, roles, ablation, probe_ablation\n"},
       }) {
    const RunResult result = run_attnctl(row.arguments);
    CAPTURE(result.err);
    CHECK(result.status != 0);
    CHECK(result.err.size() <= 501);  // with the line end
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.err.starts_with(row.begin));
    CHECK(result.err.ends_with(row.end));
  }
}

TEST_CASE("interrupts and kills leave the old file or the whole new one") {
  const TempDir folder;
  const std::string out = folder.write("out.json", "old").string();
  const std::vector<std::string> command = {"analyze",  kLlama, "--ids", "1,2,3,4",
                                            "--format", "json", "-o",    out};
  RunOptions run;
  run.environment = with_fault("write:INT:100", kTemporary);  // kind 138
  const RunResult interrupted = run_attnctl(command, run);
  CHECK(interrupted.status == 130);
  CHECK(std::count(interrupted.err.begin(), interrupted.err.end(), '\n') == 1);
  CHECK(slurp(out) == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  for (const std::string fault : {"write:KILL:100", "fsync:KILL", "rename:KILL"}) {  // kind 133
    run.environment = with_fault(fault, fault.starts_with("rename") ? "out.json" : kTemporary);
    CHECK(run_attnctl(command, run).status == 128 + SIGKILL);
    const std::string now = slurp(out);
    CHECK((now == "old" || json::accept(now)));
  }
  CHECK(run_attnctl(command).status == 0);
  CHECK(json::accept(slurp(out)));
}

TEST_CASE("kinds 135, 136, 137: inputs that fail while they are read") {
  RunOptions run;
  run.environment = with_fault("read:EIO", "config.json");
  check_command_refuses({"analyze", kLlama, "--ids", "1"},
                        {.status = Status::environment, .parts = {"config.json"}, .run = run});
  const TempDir folder;
  std::filesystem::copy(kLlama + "/config.json", folder.path());
  std::filesystem::copy(kLlama + "/model.safetensors", folder.path() / "other.safetensors");
  run.environment = with_fault("stat:EIO", "/model.safetensors");
  check_command_refuses({"info", folder.path().string()},
                        {.status = Status::environment,
                         .parts = {"/model.safetensors: cannot open: Input/output error"},
                         .run = run});
  run.environment = with_fault("stat:EIO", "data/tiny-bert");
  check_command_refuses({"tokenize", "data/tiny-bert", "The cat"},
                        {.status = Status::environment,
                         .parts = {"data/tiny-bert: cannot open: Input/output error"},
                         .run = run});
  for (const char* fault : {"read:SHORT", "read:EINTR", "write:SHORT", "write:EINTR"}) {
    CAPTURE(fault);
    run.environment = with_fault(fault);
    const RunResult result = run_attnctl({"analyze", kLlama, "--ids", "1,2", "--format", "json"}, run);
    CHECK(result.status == 0);
    CHECK(result.out == run_attnctl({"analyze", kLlama, "--ids", "1,2", "--format", "json"}).out);
  }
}

TEST_CASE("kind 139: output paths of the wrong type") {
  const TempDir folder;
  check_command_refuses({"analyze", kLlama, "--ids", "1", "--format", "json", "-o", folder.path().string()},
                        {.status = Status::environment, .parts = {"is a directory"}});
  const std::string file = folder.write("file", "old").string();
  check_command_refuses({"analyze", kLlama, "--ids", "1", "--format", "csv", "-o", file},
                        {.status = Status::environment, .parts = {"not a directory"}});
  CHECK(slurp(file) == "old");
  const std::filesystem::path link = folder.path() / "link.json";
  std::filesystem::create_symlink(file, link);
  CHECK(run_attnctl({"analyze", kLlama, "--ids", "1", "-o", link.string()}).status == 0);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(json::accept(slurp(file)));
}

TEST_CASE("a --memory that is too small is status 5 before computing, and names a sufficient value") {
  for (const char* const memory : {"1", "100K", "1M", "20M"}) {
    check_command_refuses({"analyze", kLlama, "--ids", "1,2,3", "--memory", memory},
                          {.status = Status::limit, .parts = {"--memory", "M is enough"}});
    check_command_refuses({"weights", kLlama, "--memory", memory},
                          {.status = Status::limit, .parts = {"--memory", "M is enough"}});
  }
}

TEST_CASE("a stack of 192 KiB is enough, and OMP_NUM_THREADS=0 changes nothing") {
  if (kSanitized) {
    MESSAGE("skipped: a sanitizer needs a larger stack");
    return;
  }
  for (const char* const arguments :
       {"analyze data/tiny-llama 'The cat sat on the mat.' --include patterns,rollout,subspaces",
        "weights data/tiny-bert --format csv --table heads", "experiment hull",
        "study data/tiny-bert --input data/treebank.conllu --threads 2",
        "analyze data/tiny-bert 'The cat sat.' --format svg"}) {
    CAPTURE(arguments);
    const RunResult plain = run_shell(fmt::format("attnctl {}", arguments));
    const RunResult limited = run_shell(fmt::format("ulimit -s 192; attnctl {}", arguments),
                                        {.environment = {{"OMP_NUM_THREADS", "0"}}});
    CHECK(limited.status == 0);
    CHECK(limited.err == plain.err);
    CHECK(limited.out == plain.out);
  }
}

TEST_CASE("kind 134: a memory limit is status 5") {
  if (kSanitized) {
    MESSAGE("skipped: a sanitizer reserves its own address space");
    return;
  }
  const TempDir folder;
  const std::string x =
      folder.write("x.npy", array("<f4", "(200000, 2)", std::string(std::size_t{200'000} * 2 * 4, '\1')))
          .string();
  const std::string config = folder.write("config.json", kConfig).string();
  const std::string identity = array("<f4", "(2, 2)", bytes_of<float>({1, 0, 0, 1}));
  const std::string weights = folder.write("w.npz", zip({{.name = "W_q.npy", .data = identity}})).string();
  struct Row {
    int kilobytes;
    int threads;
  };
  // The smallest limits are too small to load BLAS. The largest are too small only for the work itself.
  for (const Row& row :
       {Row{600000, 1}, Row{500000, 2}, Row{400000, 4}, Row{300000, 1}, Row{250000, 2}, Row{200000, 1}}) {
    CAPTURE(row.kilobytes);
    CAPTURE(row.threads);
    const RunResult result = run_shell(
        fmt::format("ulimit -v {}; attnctl analyze {} --config {} --embeddings {} --limit 1000000000000 "
                    "--threads {} --include patterns --format json",
                    row.kilobytes, weights, config, x, row.threads));
    CHECK_MESSAGE(result.status == 5, result.err);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("a file of a model directory that is not the weights: the error names the directory") {
  for (const std::string file : {"config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"}) {
    CAPTURE(file);
    check_command_refuses({"info", "data/tiny-bert/" + file},
                          {.parts = {"data/tiny-bert/" + file +
                                     ": is not a weights file; give the directory of the model: "
                                     "data/tiny-bert\n"}});
  }
  RunOptions inside;
  inside.directory = ATTNCTL_SOURCE_DIR "/data/tiny-bert";
  check_command_refuses({"info", "vocab.txt"}, {.parts = {"the directory of the model: .\n"}, .run = inside});
}

TEST_CASE("paths that cannot be opened are status 4, missing files of a model are status 3") {
  const TempDir folder;
  folder.write("model/config.json", slurp(kLlama + "/config.json"));
  check_command_refuses({"analyze", "no/such/model", "--ids", "1"},
                        {.status = Status::environment, .parts = {"no/such/model"}});
  check_command_refuses({"analyze", kLlama, "--input", "no-such.jsonl"},
                        {.status = Status::environment, .parts = {"no-such.jsonl"}});
  check_command_refuses({"analyze", (folder.path() / "model").string(), "--ids", "1"},
                        {.parts = {"no weights, need model.safetensors, "}});
  check_command_refuses({"analyze", folder.path().string(), "--ids", "1"},
                        {.parts = {"no config.json", "weights (model.safetensors, "}});
  folder.write("model/model.safetensors", "\x89PNG\r\n\x1a\n and so on");
  check_command_refuses({"analyze", (folder.path() / "model").string(), "--ids", "1"},
                        {.parts = {"model.safetensors"}});
}

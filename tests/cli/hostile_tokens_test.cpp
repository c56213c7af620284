// Kinds 123 to 125 of the bad inputs: no token, text or path can inject code into the output.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

const std::string kScript = "\"><script>alert(1)</script>";
const std::string kFormula = "=cmd|'/c_calc'!A1";
const std::string kEscape = "\x1b]0;owned\x07\x1b[2J\u202e\u2066";
const std::string kText = kScript + " " + kFormula + " " + kEscape;

/// Returns a copy of the bundled encoder with hostile tokens, in a directory with a hostile name.
std::string hostile_model(const TempDir& folder) {
  const std::string name = "\x1b]0;path\x07\u202e=\"><script>";
  const std::filesystem::path model = folder.path() / name;
  std::filesystem::create_directory(model);
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(std::filesystem::path("data/tiny-bert") / file, model / file);
  const json tokenizer = {
      {"added_tokens", json::array()},
      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
      {"model",
       {{"type", "WordLevel"},
        {"unk_token", "[UNK]"},
        {"vocab", {{"[UNK]", 0}, {kScript, 1}, {kFormula, 2}, {kEscape, 3}, {"-2+3", 4}}}}},
  };
  folder.write(name + "/tokenizer.json", tokenizer.dump());
  return model.string();
}

bool has_control_bytes(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r') || c == 0x7f;
  });
}

bool has_bidi_controls(const std::string& text) {
  return text.find("\u202e") != std::string::npos || text.find("\u2066") != std::string::npos;
}

/// Runs `command` in every format. The results include standard error.
std::vector<RunResult> all_formats(const std::vector<std::string>& command,
                                   const std::vector<std::string>& formats) {
  std::vector<RunResult> results;
  for (const std::string& format : formats) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--format", format});
    if (format == "csv")
      arguments.insert(arguments.end(), {"--table", command[0] == "tokenize" ? "tokens" : "inputs"});
    results.push_back(run_attnctl(arguments));
    CAPTURE(format);
    CHECK_MESSAGE(results.back().status == 0, results.back().err);
    CHECK_FALSE(has_control_bytes(results.back().out));
    CHECK_FALSE(has_control_bytes(results.back().err));
    if (format == "text" || format == "svg") CHECK_FALSE(has_bidi_controls(results.back().out));
    CHECK_FALSE(has_bidi_controls(results.back().err));
  }
  return results;
}

TEST_CASE("hostile tokens, texts and paths are escaped in every format (123, 124, 125)") {
  const TempDir folder;
  const std::string model = hostile_model(folder);
  const std::vector<RunResult> tokens =
      all_formats({"tokenize", model, "--text", kText + " -2+3"}, {"json", "jsonl", "csv", "text"});
  const json input = json::parse(tokens[0].out).at("inputs").at(0);
  CHECK(input.at("tokens") == json({kScript, kFormula, kEscape, "-2+3"}));
  CHECK(input.at("text") == kText + " -2+3");
  CHECK(tokens[2].out.find(",'=cmd|") != std::string::npos);
  CHECK(tokens[2].out.find(",'-2+3,") != std::string::npos);
  CHECK(tokens[2].out.find("\\x1b]0;owned\\x07\\x1b[2J\u202e\u2066") != std::string::npos);
  CHECK(tokens[3].out.find("\\x1b[2J\\u202e\\u2066") != std::string::npos);

  const std::vector<RunResult> heads = all_formats({"analyze", model, "--text", kText, "--from", kFormula,
                                                    "--to", kScript, "--include", "metrics,patterns"},
                                                   {"json", "jsonl", "csv", "svg", "text"});
  CHECK(json::parse(heads[0].out).at("inputs").at(0).at("tokens") == json({kScript, kFormula, kEscape}));
  CHECK(json::parse(heads[0].out).at("model").at("path") == model);
  CHECK(heads[2].out.find(",'=cmd|") != std::string::npos);
  CHECK(heads[3].out.find("<script") == std::string::npos);
  CHECK(heads[3].out.find("&quot;&gt;&lt;script&gt;") != std::string::npos);

  const std::vector<RunResult> by_word = all_formats(
      {"analyze", model, "--text", kText, "--by-word", "--include", "patterns"}, {"csv", "svg", "text"});
  CHECK(by_word[1].out.find("<script") == std::string::npos);
}

TEST_CASE("a hostile path or text in an error is one clean line (125)") {
  const TempDir folder;
  const std::string model = hostile_model(folder);
  for (const std::vector<std::string>& command : {
           std::vector<std::string>{"tokenize", model + "/none", "--text", "a"},
           std::vector<std::string>{"tokenize", model, "--input", kEscape + ".txt"},
           std::vector<std::string>{"tokenize", model, "--input", "x" + kEscape},
           std::vector<std::string>{"analyze", model, "--text", kText, "--from", kEscape + "x"},
           std::vector<std::string>{"analyze", model, "--text", kText, "--text", "", "--truncate"},
           std::vector<std::string>{"analyze", model + "/model.safetensors", "--input", kEscape},
           std::vector<std::string>{"analyze", model, "--" + kEscape},
       }) {
    const RunResult result = run_attnctl(command);
    CAPTURE(result.err);
    CHECK(result.status != 0);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK_FALSE(has_control_bytes(result.err));
    CHECK_FALSE(has_bidi_controls(result.err));
  }
}

}  // namespace
}  // namespace attnctl::test

#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.hpp"
#include "cli/options/command.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

/// Returns a small command tree with every kind of argument. Nothing is parsed, so that all options have the
/// same target.
cli::Command sample_tree() {
  static std::string text;
  static std::vector<std::string> list;
  static bool flag;
  cli::Command look{.name = "look", .about = "Look at [one] model: it's quick"};
  look.add(
      {{.names = "MODEL", .target = &text, .help = "Checkpoint"},
       {.names = "-f,--format", .target = &text, .help = "How", .allowed = {"json", "jsonl", "csv"}},
       {.names = "--include",
        .target = &list,
        .help = "What",
        .split = true,
        .allowed = {"metrics", "patterns"}},
       {.names = "--measures",
        .target = &text,
        .help = "Which",
        .type = "LIST",
        .offered = {"syntax", "roles"}},
       {.names = "--order", .target = &text, .help = "Order", .allowed = {"model", "cluster"}},
       {.names = "--mask", .target = &text, .help = "Mask", .type = "none|FILE.npy", .offered = {"none"}},
       {.names = "-o,--output", .target = &text, .help = "Where: the file's \"name\"", .type = "PATH"},
       {.names = "--digits", .target = &text, .help = "Decimals"},
       {.names = "--quiet", .target = &flag, .help = "Say nothing"}});
  cli::Command hull{.name = "hull", .about = "A"};
  hull.add({{.names = "--kind", .target = &text, .help = "Kind", .offered = {"full", "window:"}}});
  return {.name = "attnctl",
          .about = "See what heads do",
          .subcommands = {look,
                          {.name = "list", .about = "List"},
                          {.name = "try",
                           .about = "Try",
                           .subcommands = {hull, {.name = "heads", .about = "B"}}}},
          .version = [] { return "0"; }};
}

bool has_shell(const std::string& shell) {
  return run_shell("command -v " + shell).status == 0;
}

/// Returns the completions that bash offers for the last of these words.
std::vector<std::string> bash_offers(const std::string& script, const std::vector<std::string>& words) {
  std::string program = script + "COMP_WORDS=(";
  for (const std::string& word : words) program += " '" + word + "'";
  program += ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_attnctl\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  const TempDir folder;
  folder.write("two words.npz", "");
  RunOptions options;
  options.directory = folder.path().string();
  options.input = program;
  const RunResult result = run_shell("bash", options);
  REQUIRE(result.err.empty());
  std::vector<std::string> offers;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) offers.push_back(line);
  return offers;
}

TEST_CASE("bash completes commands, options, their words and files") {
  const std::string script = cli::completion_script(sample_tree(), "bash");
  struct Row {
    std::vector<std::string> words;
    std::vector<std::string> want;
  };
  const std::vector<Row> rows = {
      {{"attnctl", ""}, {"look", "list", "try"}},
      {{"attnctl", "lo"}, {"look"}},
      {{"attnctl", "--v"}, {"--version"}},
      {{"attnctl", "look", "--"},
       {"--help", "--format", "--include", "--measures", "--order", "--mask", "--output", "--digits",
        "--quiet"}},
      {{"attnctl", "look", "two"}, {"two words.npz"}},
      {{"attnctl", "look", "m", "--format", ""}, {"json", "jsonl", "csv"}},
      {{"attnctl", "look", "m", "-f", "c"}, {"csv"}},
      {{"attnctl", "look", "m", "--format", "=", "js"}, {"json", "jsonl"}},
      {{"attnctl", "look", "m", "--include", "metrics,p"}, {"metrics,patterns"}},
      {{"attnctl", "look", "m", "--measures", "syntax,r"}, {"syntax,roles"}},
      {{"attnctl", "look", "m", "--order", "c"}, {"cluster"}},
      {{"attnctl", "try", ""}, {"hull", "heads"}},
      {{"attnctl", "try", "he"}, {"heads"}},
      {{"attnctl", "try", "hull", "--"}, {"--help", "--kind"}},
      {{"attnctl", "try", "hull", "--kind", ""}, {"full", "window:"}},
      {{"attnctl", "try", "heads", "--"}, {"--help"}},
      {{"attnctl", "look", "hull", "--digits", ""}, {}},
      {{"attnctl", "look", "m", "-o", "tw"}, {"two words.npz"}},
      {{"attnctl", "look", "m", "--mask", ""}, {"none", "two words.npz"}},
      {{"attnctl", "look", "m", "--digits", ""}, {}},
      {{"attnctl", "list", ""}, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.words.back());
    CAPTURE(row.words.size());
    CHECK(bash_offers(script, row.words) == row.want);
  }
}

TEST_CASE("each shell reads its completion") {
  const cli::Command tree = sample_tree();
  const TempDir folder;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CAPTURE(shell);
    const std::string script = cli::completion_script(tree, shell);
    CHECK(script.find("look") != std::string::npos);
    if (!has_shell(shell)) {
      MESSAGE(shell << " is not installed: its syntax is not checked");
      continue;
    }
    const RunResult result = run_shell(std::string(shell) + " -n " + folder.write(shell, script).string());
    CHECK(result.status == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("fish completes commands, options and their words") {
  if (!has_shell("fish")) {
    MESSAGE("fish is not installed: skipped");
    return;
  }
  const TempDir folder;
  RunOptions options;
  options.environment = {{"HOME", folder.path().string()}};
  const std::string script =
      folder.write("attnctl.fish", cli::completion_script(sample_tree(), "fish")).string();
  const auto offers = [&](const std::string& line) {
    const RunResult result = run_shell(
        "fish --no-config -c 'source " + script + "; complete -C \"" + line + "\" | cut -f1'", options);
    CHECK(result.status == 0);
    return result.out;
  };
  CHECK(offers("attnctl lo") == "look\n");
  CHECK(offers("attnctl look --fo") == "--format\n");
  CHECK(offers("attnctl look --format c") == "csv\n");
  CHECK(offers("attnctl look --include metrics,p") == "metrics,patterns\n");
  CHECK(offers("attnctl look --order c") == "cluster\n");
  CHECK(offers("attnctl look --mask no") == "none\n");
  CHECK(offers("attnctl try he") == "heads\n");
  CHECK(offers("attnctl try hull --ki") == "--kind\n");
  CHECK(offers("attnctl try hull --kind f") == "full\n");
  CHECK(offers("attnctl try heads --ki").empty());
}

TEST_CASE("the completion of attnctl has the words of every fixed list") {
  const RunResult result = run_attnctl({"completion", "bash"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  for (const std::string line : {
           "analyze/--include) _attnctl_list 'metrics patterns scores ",
           "weights/--include) _attnctl_list 'weights directions circuits subspaces composition "
           "token_circuits map'",
           "weights/--similarity) _attnctl_list 'qk ov w_q w_k w_v w_o'",
           "study/--measures) _attnctl_list 'metrics positional ",
           "tokenize/--progress) _attnctl_words 'auto always never'",
           "experiment/*) _attnctl_words 'averaging diversity ",
           "experiment\\ distance/--by) _attnctl_words 'layer head'",
           "analyze/--table) _attnctl_words 'heads subspace_similarity ",
           "analyze/--component) _attnctl_list 'encoder decoder cross'",
           "weights/--sort) _attnctl_words 'qk_effective_rank ",
           "verify/--attention) _attnctl_words 'full window: ",
           "analyze/--mask) _attnctl_files 'causal none'",
           "completion/*) _attnctl_words 'bash zsh fish'",
       }) {
    CHECK_MESSAGE(result.out.find("    " + line) != std::string::npos, line);
  }
}

TEST_CASE("--plot completes the columns that it draws, with their table if it is not heads") {
  const auto offers = [](const char* command, const char* word) {
    const std::string script = run_attnctl({"completion", "bash"}).out;
    return bash_offers(script, {"attnctl", command, "--plot", word});
  };
  CHECK(offers("study", "metr").empty());
  CHECK(offers("study", "relations.acc") == std::vector<std::string>{"relations.accuracy"});
  CHECK(offers("merge", "relations.rel").empty());
  CHECK(offers("compare", "positional.") ==
        std::vector<std::string>{"positional.peaks", "positional.uniform", "positional.weight"});
  CHECK(offers("analyze", "contributions.sh") == std::vector<std::string>{"contributions.share"});
  CHECK(offers("analyze", "patterns").empty());
  CHECK(offers("analyze", "confi") == std::vector<std::string>{"confidence"});
  CHECK(offers("weights", "con").empty());
  CHECK(offers("weights", "circuits").empty());
  CHECK(offers("weights", "qk_n") == std::vector<std::string>{"qk_numerical_rank"});
}

}  // namespace
}  // namespace attnctl::test

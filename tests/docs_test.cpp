#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/console.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;

/// A folder that looks like the project's root, so that examples run as printed and may write.
class Root {
 public:
  Root() {
    for (const char* name : {"data", "docs", "schemas", "scripts"})
      fs::create_directory_symlink(fs::path(ATTNCTL_SOURCE_DIR) / name, folder_.path() / name);
  }
  [[nodiscard]] const TempDir& folder() const { return folder_; }

  [[nodiscard]] RunResult run(const std::string& command) const {
    return run_shell(command, {.input = {}, .environment = {}, .directory = folder_.path().string()});
  }
  /// As somebody at a terminal sees it; standard error stays apart. The terminal has 100 columns, or 300 if
  /// the page shows a wider line. nullopt: no terminal can be opened.
  [[nodiscard]] std::optional<RunResult> run_in_terminal(const Example& example) const {
    const bool wide = std::ranges::any_of(example.output, [](const auto& line) { return line.size() > 100; });
    std::optional<RunResult> result = test::run_in_terminal(
        "exec 2>.stderr\n" + example.command, wide ? 300 : 100,
        {.environment = {{"NO_COLOR", "1"}, {"TERM", "xterm"}}, .directory = folder_.path().string()});
    if (result) result->err = slurp(folder_.path() / ".stderr");
    return result;
  }

 private:
  TempDir folder_;
};

/// What an example needs beside attnctl and is not there; empty: it can run.
std::string missing_tool(const Root& root, const std::string& command) {
  for (const char* tool : {"gnuplot", "jq", "python3"}) {
    if (!std::regex_search(command, std::regex(std::string("\\b") + tool + "\\b"))) continue;
    if (root.run(std::string("command -v ") + tool).status != 0) return tool;
  }
  const bool plots = command.find("python3") != std::string::npos;
  if (plots && root.run("python3 -c 'import matplotlib, numpy, pandas'").status != 0)
    return "matplotlib with numpy and pandas";
  return {};
}

void check_example(const Root& root, const std::string& document, const Example& example) {
  CAPTURE(document);
  CAPTURE(example.line);
  CAPTURE(example.command);
  if (const std::string tool = missing_tool(root, example.command); !tool.empty()) {
    MESSAGE("skipped: " << tool << " is not installed: " << example.command);
    return;
  }
  const std::optional<RunResult> result = root.run_in_terminal(example);
  if (!result) MESSAGE("not compared with what is shown, no pseudo-terminal here: " << example.command);
  const RunResult shown = result ? *result : root.run(example.command);
  CAPTURE(shown.err);
  CHECK(shown.status == 0);
  CHECK(shown.out != "null\n");  // jq, for a key that does not exist
  if (result && !example.output.empty())
    CHECK(shown_against_printed(example.output, lines_of(shown.out)) == "");
}

/// Runs every example of a document; returns how many there were.
std::size_t check_document(const fs::path& path) {
  const std::string text = slurp(path);
  const Root root;
  for (const NamedFile& file : named_files(text)) root.folder().write(file.name, file.text);
  std::size_t examples = 0;
  for (const Example& example : console_examples(text)) {
    if (example.command.find("attnctl ") == std::string::npos) continue;
    ++examples;
    check_example(root, path.filename().string(), example);
  }
  return examples;
}

TEST_CASE("the examples of README.md print what it shows") {
  CHECK(check_document(fs::path(ATTNCTL_SOURCE_DIR) / "README.md") >= 2);
}

TEST_CASE("the examples of docs/textbook.md print what it shows") {
  CHECK(check_document(fs::path(ATTNCTL_SOURCE_DIR) / "docs" / "textbook.md") >= 35);
}

TEST_CASE("the examples of the other docs print what they show") {
  std::size_t examples = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(ATTNCTL_SOURCE_DIR) / "docs")) {
    if (entry.path().extension() == ".md" && entry.path().stem() != "textbook" &&
        entry.path().stem() != "gallery")
      examples += check_document(entry.path());
  }
  CHECK(examples >= 10);
}

/// Returns the texts of an SVG, and the number of its shapes of each kind. Colours, positions and tooltips
/// depend on the last digits of numbers, which differ between CPUs.
std::vector<std::string> contents_of(const std::string& svg) {
  static const std::regex element("<(rect|path|circle|polygon|text|tspan) [^>]*>([^<]*)");
  std::vector<std::string> contents;
  std::map<std::string, std::size_t> shapes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), element), end; at != end; ++at) {
    const std::string kind = (*at)[1];
    ++shapes[kind];
    if (kind.starts_with('t')) contents.push_back((*at)[2]);
  }
  for (const auto& [kind, count] : shapes) contents.push_back(kind + " " + std::to_string(count));
  return contents;
}

TEST_CASE("docs/gallery.md shows every picture of docs/images, and its commands draw them") {
  const fs::path docs = fs::path(ATTNCTL_SOURCE_DIR) / "docs";
  const std::string page = slurp(docs / "gallery.md");
  const Root root;
  std::size_t drawn = 0;
  for (const Example& example : console_examples(page)) {
    CAPTURE(example.command);
    const std::string name = example.command.substr(example.command.rfind(' ') + 1);
    const RunResult result = root.run(example.command);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(page.find("](images/" + name + ")") != std::string::npos);
    // scripts/gallery draws new pictures.
    CHECK(shown_against_printed(contents_of(slurp(docs / "images" / name)),
                                contents_of(slurp(root.folder().path() / name))) == "");
    ++drawn;
  }
  std::size_t pictures = 0;
  for (const auto& entry : fs::directory_iterator(docs / "images")) {
    const std::string file = entry.path().filename().string();
    CHECK_MESSAGE(page.find("-o " + file + "\n") != std::string::npos, "not in docs/gallery.md: ", file);
    ++pictures;
  }
  CHECK(drawn == pictures);
}

TEST_CASE("docs/tokenizers.md names the parts that the program knows") {
  const std::string page = slurp(fs::path(ATTNCTL_SOURCE_DIR) / "docs" / "tokenizers.md");
  for (const std::string section : {"normalizer", "pre_tokenizer", "model", "post_processor", "decoder"}) {
    CAPTURE(section);
    const TempDir folder;
    const std::string word_level = R"("model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}})";
    const std::string unknown = "\"" + section + R"(": {"type": "X", "vocab": {"a": 0}})";
    folder.write("tokenizer.json", "{" + (section == "model" ? "" : word_level + ", ") + unknown + "}");
    const RunResult result = run_attnctl({"tokenize", folder.path().string(), "--text", "a"});
    CHECK(result.status == 3);
    const std::string before = "/" + section + "/type: unsupported \"X\", supported: ";
    const std::size_t found = result.err.find(before);
    REQUIRE_MESSAGE(found != std::string::npos, result.err);
    const std::string known = result.err.substr(found + before.size());
    const std::string row = "| `" + section + "` | " + known.substr(0, known.find('\n')) + " |\n";
    CHECK_MESSAGE(page.find(row) != std::string::npos, "missing: ", row);
  }
}

TEST_CASE("docs/reliability.md names tests that exist") {
  std::string sources;
  for (fs::recursive_directory_iterator entry(ATTNCTL_SOURCE_DIR "/tests"), end; entry != end; ++entry) {
    if (entry->path().filename() == "golden") entry.disable_recursion_pending();
    if (entry->path().extension() == ".cpp") sources += slurp(entry->path());
  }
  const std::string page = slurp(ATTNCTL_SOURCE_DIR "/docs/reliability.md");
  static const std::regex row("\\| [^|]* \\| (`[^|]*`) \\| [^|]* \\|"), name("`([^`]*)`");
  std::size_t names = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at) {
    const std::string cell = (*at)[1];
    for (std::sregex_iterator test(cell.begin(), cell.end(), name); test != end; ++test) {
      ++names;
      const std::string title = (*test)[1];
      CHECK_MESSAGE(sources.find("TEST_CASE(\"" + title + "\")") != std::string::npos, "no test: ", title);
    }
  }
  CHECK(names >= 60);
}

TEST_CASE("the examples of every --help run as printed") {
  const Root root;
  const std::string help = run_attnctl({"--help"}).out;
  std::vector<std::string> commands = {""};
  bool below = false;
  for (const std::string& line : lines_of(help)) {
    if (line == "Subcommands:") {
      below = true;
    } else if (below && line.rfind("  ", 0) == 0) {
      const std::string name = line.substr(2, line.find(' ', 2) - 2);
      if (!name.empty()) commands.push_back(name);
    } else {
      below = false;
    }
  }
  CHECK(commands.size() >= 7);
  for (const std::string& command : commands) {
    CAPTURE(command);
    const std::vector<std::string> words =
        command.empty() ? std::vector<std::string>{"--help"} : std::vector<std::string>{command, "--help"};
    const RunResult shown = run_attnctl(words);
    CHECK(shown.status == 0);
    const std::vector<std::string> examples = help_examples(shown.out);
    CHECK(!examples.empty());
    for (const std::string& example : examples) check_example(root, "--help", {0, example, {}});
  }
}

}  // namespace
}  // namespace attnctl::test

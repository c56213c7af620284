// The tasks of new users: what a command of each task shows in terminals of 80 and 120 columns, and in a
// pipe.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "first_contact/tasks.hpp"
#include "report/text.hpp"
#include "support/console.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// An attention model with random weights, and the words of data/attention-demo.json.
std::string random_model(std::size_t layers, std::size_t heads) {
  const json demo = json::parse(slurp(ATTNCTL_SOURCE_DIR "/data/attention-demo.json"));
  const std::size_t width = demo["embedding"][0].size();
  const std::size_t columns = 2 * heads;
  std::mt19937 generator(1);
  const auto matrix = [&](std::size_t rows, std::size_t row_size) {
    json values = json::array();
    for (std::size_t row = 0; row < rows; ++row) {
      json numbers = json::array();
      for (std::size_t i = 0; i < row_size; ++i)
        numbers.push_back(static_cast<double>(generator() % 2001) / 1000 - 1);
      values.push_back(numbers);
    }
    return values;
  };
  json model = {{"config", demo["config"]}, {"embedding", demo["embedding"]}};
  model["config"]["heads"] = heads;
  model["config"]["layers"] = layers;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = fmt::format("layers.{}.W_", layer);
    for (const char* name : {"q", "k", "v"}) model[prefix + name] = matrix(width, columns);
    model[prefix + "o"] = matrix(columns, width);
  }
  return model.dump();
}

/// A folder with the bundled models in data/, and models of 72 and 144 heads in models/.
class Folder {
 public:
  Folder() {
    static const std::array<std::string, 2> kModels = {random_model(6, 12), random_model(12, 12)};
    fs::create_directory_symlink(ATTNCTL_SOURCE_DIR "/data", folder_.path() / "data");
    folder_.write("models/heads72.json", kModels[0]);
    folder_.write("models/heads144.json", kModels[1]);
  }

  /// Runs a command in a terminal with this number of columns, or in a pipe if it is 0. Returns its status
  /// and what can then be read, without colours. nullopt: no terminal can be opened here.
  [[nodiscard]] std::optional<RunResult> run(const std::string& command, std::size_t columns) const {
    RunOptions options;
    options.directory = folder_.path().string();
    options.environment = {{"TERM", "xterm-256color"}, {"COLORTERM", ""}, {"NO_COLOR", ""}};
    if (columns == 0) {
      RunResult result = run_shell(command, options);
      CHECK(result.out.find('\x1b') == std::string::npos);
      result.out += result.err;
      return result;
    }
    std::optional<RunResult> result = run_in_terminal(command, columns, options);
    if (!result) return result;
    static const std::regex colours_and_progress(
        "\x1b\\[[0-9;]*m|\r\x1b\\[K[^\r\n]*(?=\r\x1b\\[K)|\r\x1b\\[K");
    result->out = std::regex_replace(result->out, colours_and_progress, "");
    return result;
  }

  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }

 private:
  TempDir folder_;
};

/// Returns the words of a text with one space between them.
std::string words_of(const std::string& text) {
  static const std::regex space("\\s+");
  return std::regex_replace(text, space, " ");
}

/// Checks the lines of the screen. Messages (on standard error) may be wider than the terminal.
void check_widths(const std::string& screen, std::size_t columns) {
  for (const std::string& line : lines_of(screen))
    CHECK_MESSAGE((line.starts_with("attnctl: ") || report::display_width(line) <= columns), line);
}

void check_task(const Task& task, std::size_t columns) {
  CAPTURE(task.number);
  CAPTURE(task.words);
  CAPTURE(task.command);
  CAPTURE(columns);
  if (task.command.find("jq ") != std::string::npos && run_shell("command -v jq").status != 0) {
    MESSAGE("skipped: jq is not installed");
    return;
  }
  const std::optional<RunResult> result = Folder().run(task.command, columns);
  if (!result) {
    MESSAGE("skipped: no pseudo-terminal can be opened");
    return;
  }
  const std::string beginning = result->out.substr(0, 2000);
  CAPTURE(beginning);
  CHECK(result->status == task.status);
  const std::string words = words_of(result->out);
  for (const std::string& part : columns == 0 && !task.piped.empty() ? task.piped : task.shows)
    CHECK_MESSAGE(words.find(part) != std::string::npos, "not found: ", part);
  for (const std::string& part : task.hides)
    CHECK_MESSAGE(words.find(part) == std::string::npos, "found: ", part);
  if (columns > 0) check_widths(result->out, columns);
  const std::vector<std::string> lines = lines_of(result->out);
  if (task.status != 0)
    CHECK(std::ranges::count_if(lines, [](const auto& line) { return line.starts_with("attnctl: "); }) == 1);
}

void check_tasks(const std::vector<Task>& tasks) {
  for (const std::size_t columns : {0U, 80U, 120U})
    for (const Task& task : tasks) check_task(task, columns);
}

TEST_CASE("first contact: tasks of a student") {
  check_tasks(student_tasks());
}

TEST_CASE("first contact: tasks of a data scientist") {
  check_tasks(data_scientist_tasks());
}

TEST_CASE("first contact: tasks of a researcher") {
  check_tasks(researcher_tasks());
}

TEST_CASE("first contact: only tasks that attnctl cannot do yet have no test") {
  std::set<int> missing;
  for (int number = 1; number <= 45; ++number) missing.insert(number);
  for (const auto& tasks : {student_tasks(), data_scientist_tasks(), researcher_tasks()})
    for (const Task& task : tasks) missing.erase(task.number);
  CHECK(missing == std::set<int>{32});
}

TEST_CASE("first contact: pages of 16, 72 and 144 heads fit the terminal") {
  const Folder folder;
  const std::vector<std::string> commands = {
      "analyze {} --input ids.jsonl",
      "analyze {} --input ids.jsonl --from 3 --to 1,2",
      "analyze {} --input ids.jsonl --include patterns --heads 3.1",
      "analyze {} --input ids.jsonl --show 3.1",
      "analyze {} --input ids.jsonl --show 3",
      "analyze {} --input ids.jsonl --include "
      "rollout,flow,contributions,mixing,largest_value,sinks,activations",
      "analyze {} --input ids.jsonl --by-word --per-input",
      "weights {} --include weights,subspaces,composition,map --across-layers",
      "study {} --input ids.jsonl --format text",
      "info {} --format text",
  };
  for (const char* model : {"data/tiny-llama", "models/heads72.json", "models/heads144.json"}) {
    for (const std::size_t tokens : {5U, 16U, 45U}) {
      json ids = json::array();
      for (std::size_t i = 0; i < tokens; ++i) ids.push_back(i * 7 % 22);
      folder.write("ids.jsonl", json{{"ids", ids}}.dump() + "\n");
      for (const std::string& command : commands) {
        for (const std::size_t columns : {80U, 120U}) {
          const std::string whole = "attnctl " + fmt::format(fmt::runtime(command), model);
          CAPTURE(whole);
          CAPTURE(tokens);
          const std::optional<RunResult> result = folder.run(whole, columns);
          if (!result) {
            MESSAGE("skipped: no pseudo-terminal can be opened");
            return;
          }
          CHECK_MESSAGE(result->status == 0, result->out);
          check_widths(result->out, columns);
          if (command.find("--from") != std::string::npos) CHECK(lines_of(result->out).size() <= 40);
        }
      }
    }
  }
}

}  // namespace
}  // namespace attnctl::test

// Runs commands of attnctl again and again, and makes another thing fail in each run: an allocation, a call
// of the file system, or the process itself through a signal. Whatever fails, attnctl must end with the
// documented status and a short message, each output must be the old or the new one, and no temporary file
// may remain.
//
// attnctl_faults memory|files|signals|repeats [--seconds S] [--command NAME]
//   repeats    nothing fails: each command runs a thousand times with 1, 2 and 4 threads
//   --seconds  stop after this time; the faults are in random order, the same in each run (default: all
//   faults)
//   --command  only this command of kCommands

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <regex>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/fault.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Files = std::map<std::string, std::string>;  // the content of each file of a folder, by its path in it

struct TestedCommand {
  std::string_view name;
  std::vector<std::string> arguments;  // @ is the folder of the run
  std::vector<std::string> outputs;    // files in this folder; with / at the end: a folder of tables
  bool has_states = false;             // the folder has the states of two shards
  bool has_fonts = false;              // other libraries draw, with another font if they cannot read one
};

const std::string kModel = "data/tiny-bert";
const std::string kText = "The cat sat on the mat.";
const std::string kTreebank = "data/treebank.conllu";

/// The checkpoint is the last output of `study`, so that it is known to be complete when `-o` is.
const std::vector<TestedCommand> kCommands = {
    {"analyze json", {"analyze", kModel, kText, "-o", "@/out.json"}, {"out.json"}},
    {"analyze csv", {"analyze", kModel, kText, "--format", "csv", "-o", "@/tables"}, {"tables/"}},
    {"analyze npz",
     {"analyze", kModel, kText, "--include",
      "patterns,scores,values,z,rollout,directions,subspaces,contributions", "-o", "@/out.npz"},
     {"out.npz"}},
    {"analyze text", {"analyze", kModel, kText, "-o", "@/out.txt"}, {"out.txt"}},
    {"analyze svg", {"analyze", kModel, kText, "-o", "@/out.svg"}, {"out.svg"}},
    {"analyze png", {"analyze", kModel, kText, "-o", "@/out.png"}, {"out.png"}, false, true},
    {"analyze html", {"analyze", kModel, kText, "-o", "@/out.html"}, {"out.html"}},
    {"analyze llama", {"analyze", "data/tiny-llama", kText, "-o", "@/out.json"}, {"out.json"}},
    {"analyze memory",
     {"analyze", "data/tiny-llama", kText, "--memory", "70M", "-o", "@/out.jsonl"},
     {"out.jsonl"}},
    {"view", {"view", "data/patterns.npz", "-o", "@/out.html"}, {"out.html"}},
    {"weights", {"weights", kModel, "-o", "@/out.json"}, {"out.json"}},
    {"study",
     {"study", kModel, "--input", kTreebank, "--checkpoint", "@/kept", "--checkpoint-every", "0", "--state",
      "@/state", "-o", "@/out.json"},
     {"out.json", "state", "kept"}},
    {"study csv", {"study", kModel, "--input", kTreebank, "--format", "csv", "-o", "@/tables"}, {"tables/"}},
    {"ablate",
     {"ablate", kModel, "--input", kTreebank, "--layers", "0", "--replace", "resample", "--checkpoint",
      "@/kept", "--checkpoint-every", "0", "-o", "@/out.json"},
     {"out.json", "kept"}},
    {"patch",
     {"patch", "data/tiny-llama", "--clean-ids", "0,449,2014,449", "--corrupt-ids", "0,449,732,449",
      "--answer", "\u0120cat", "--wrong", "\u0120house", "--parts", "z,pattern", "-o", "@/out.svg"},
     {"out.svg"}},
    {"attribute",
     {"attribute", "data/tiny-llama", "--text-ids", "0,449,2014,449", "--score", "3.1:3:1", "-o",
      "@/out.json"},
     {"out.json"}},
    {"compare",
     {"compare", kModel, kModel, "--input", kTreebank, "--measures", "metrics", "-o", "@/out.json"},
     {"out.json"}},
    {"series",
     {"series", kModel, "--input", kTreebank, "--measures", "metrics", "--keep", "@/kept", "-o",
      "@/out.json"},
     {"out.json", "kept/"}},
    {"merge",
     {"merge", "@/1.part", "@/2.part", "--state", "@/all", "-o", "@/out.json"},
     {"out.json", "all"},
     true},
    {"tokenize", {"tokenize", kModel, kText, "-o", "@/out.json"}, {"out.json"}},
    {"verify", {"verify", kModel, kText, "-o", "@/out.json"}, {"out.json"}},
    {"save", {"experiment", "diversity", "--save", "@/saved", "-o", "@/out.json"}, {"out.json", "saved/"}},
};

/// The content of all files. JSON has the number of threads, which is replaced by N.
Files files_of(const fs::path& folder) {
  static const std::regex threads("\"threads\": [0-9]+");
  Files files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    std::string& bytes = files[entry.path().lexically_relative(folder).string()];
    if (!entry.is_directory()) bytes = slurp(entry.path());
    if (bytes.starts_with("{"))
      bytes = std::regex_replace(bytes.substr(0, 1000), threads, "\"threads\": N") +
              bytes.substr(std::min<std::size_t>(bytes.size(), 1000));
  }
  return files;
}

/// The files of an output: one, or all that are in a folder.
Files part_of(const Files& files, const std::string& output) {
  Files part;
  for (const auto& [name, bytes] : files)
    if (output.ends_with('/') ? (name + "/").starts_with(output) : name == output) part[name] = bytes;
  return part;
}

/// A folder in which a command runs, with an old version of each output.
class Scene {
 public:
  explicit Scene(const TestedCommand& command) : command_(command) {
    for (const std::string& word : command.arguments) {
      arguments_.push_back(word);
      const std::size_t at = word.find('@');
      if (at != std::string::npos) arguments_.back().replace(at, 1, folder_.path().string());
    }
    for (int part = 1; command.has_states && part <= 2; ++part)
      run_attnctl({"study", kModel, "--input", kTreebank, "--shard", fmt::format("{}/2", part), "--state",
                   (folder_.path() / fmt::format("{}.part", part)).string()});
    inputs_ = files_of(folder_.path());
    // fontconfig stores in its cache that there are no fonts if it cannot read them.
    fonts_.write(
        "fonts.conf",
        fmt::format("<?xml version=\"1.0\"?>\n<!DOCTYPE fontconfig SYSTEM \"fonts.dtd\">\n<fontconfig>"
                    "<dir>/usr/share/fonts</dir><cachedir>{}</cachedir></fontconfig>\n",
                    (fonts_.path() / "cache").string()));
    restore();
    old_ = files_of(folder_.path());
    const RunResult result = run();
    if (result.status != 0) throw std::runtime_error(fmt::format("{}: {}", command.name, result.err));
    new_ = files_of(folder_.path());
    restore();
  }

  /// `threads`: 0 for the default number.
  RunResult run(RunOptions options = {}, std::size_t threads = 0) const {
    if (!options.signal) options.signal = {.number = SIGKILL, .after = std::chrono::minutes(1)};
    fs::remove_all(fonts_.path() / "cache");
    options.environment["FONTCONFIG_FILE"] = (fonts_.path() / "fonts.conf").string();
    std::vector<std::string> arguments = arguments_;
    if (threads > 0) arguments.insert(arguments.end(), {"--threads", std::to_string(threads)});
    return run_attnctl(arguments, options);
  }

  /// Returns the numbers of the calls of a run: the first one with each call stack.
  std::vector<long long> calls(const std::string& call) const {
    const TempDir other;
    RunOptions options{.environment = with_fault(call + ":EIO:#1000000000000")};
    options.environment["ATTNCTL_FAULT_CALLS"] = (other.path() / "calls").string();
    run(options);
    restore();
    std::istringstream numbers(slurp(other.path() / "calls"));
    return {std::istream_iterator<long long>(numbers), {}};
  }

  /// Returns what is wrong with the files after a run with this status; empty if they are right. Restores
  /// them.
  std::string fault_in_files(bool done, bool may_leave_one) const {
    const Files now = files_of(folder_.path());
    if (now == old_ && !done) return {};
    std::string wrong;
    std::size_t strays = 0;
    for (const auto& [name, bytes] : now) {
      if (old_.contains(name) || new_.contains(name) || name.starts_with("tables/.attnctl-")) continue;
      ++strays;
      const std::string own = name.starts_with("kept/") ? name.substr(5) : name;
      if (!may_leave_one || strays > 1 || !own.starts_with(".attnctl-"))
        wrong += fmt::format("{} remains; ", name);
      if (may_leave_one) strays = 0;  // a hidden folder has files
    }
    for (const std::string& output : command_.outputs) {
      const Files part = part_of(now, output);
      if (part == part_of(new_, output) || (!done && part == part_of(old_, output))) continue;
      // A kill may leave a folder of outputs that did not exist and that is still empty.
      if (may_leave_one && output.ends_with('/') && part.size() == 1 && part.begin()->second.empty())
        continue;
      if (done && command_.has_fonts && part.size() == 1 && part.begin()->second.starts_with("\x89PNG"))
        continue;
      // A checkpoint holds the blocks that are done. To continue with it must give the same results.
      if (!done && output.starts_with("kept")) continue;
      wrong += fmt::format("{} is neither old nor new; ", output);
    }
    for (const auto& [name, bytes] : inputs_)
      if (!now.contains(name) || now.at(name) != bytes) wrong += fmt::format("the input {} changed; ", name);
    restore();
    return wrong;
  }

  /// Returns what is wrong if the same command runs again after it was killed.
  std::string fault_in_next_run() const {
    const RunResult result = run();
    if (result.status == 0) return fault_in_files(true, true);
    restore();
    return fmt::format("the next run ends with status {}: {}", result.status, result.err);
  }

 private:
  void restore() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path()))
      if (!inputs_.contains(entry.path().filename().string())) fs::remove_all(entry.path());
    for (const std::string& output : command_.outputs)
      if (!output.starts_with("kept"))
        folder_.write(output.ends_with('/') ? output + "old.csv" : output, "old\n");
    if (std::ranges::find(command_.outputs, "saved/") != command_.outputs.end())
      fs::remove_all(folder_.path() / "saved");
  }

  const TestedCommand& command_;
  TempDir folder_, fonts_;
  std::vector<std::string> arguments_;
  Files inputs_, old_, new_;
};

/// One failure in one run of a command.
struct Trial {
  std::size_t command = 0;
  std::string fault = {};  // as in with_fault()
  std::optional<LateSignal> signal = {};
  std::size_t threads = 0;

  [[nodiscard]] std::string text() const {
    if (signal) return fmt::format("signal {} after {} us", signal->number, signal->after.count());
    return fault.empty() ? fmt::format("{} threads", threads) : fault;
  }
};

constexpr std::array kMemoryCalls = {"malloc", "mmap", "thread"};

struct FileFault {
  std::string_view call;
  std::vector<std::string_view> errors;
};
const std::vector<FileFault> kFileFaults = {
    {"open", {"EIO", "EMFILE", "EINTR"}},
    {"create", {"EIO", "ENOSPC", "EDQUOT", "EMFILE"}},
    {"tmpfile", {"EIO", "ENOSPC"}},
    {"read", {"EIO", "EINTR", "SHORT"}},
    {"write", {"EIO", "ENOSPC", "EDQUOT", "EINTR", "SHORT"}},
    {"fsync", {"EIO", "ENOSPC", "EDQUOT", "EINTR"}},
    {"close", {"EIO", "ENOSPC", "EDQUOT", "EINTR"}},
    {"rename", {"EIO", "ENOSPC", "EDQUOT"}},
    {"exchange", {"EIO", "ENOSPC", "EINVAL"}},
    {"link", {"EIO", "ENOSPC", "EDQUOT"}},
    {"mkdir", {"EIO", "ENOSPC", "EDQUOT"}},
    {"stat", {"EIO"}},
    {"fstat", {"EIO"}},
    {"ftruncate", {"EIO", "ENOSPC"}},
};

using Scenes = std::vector<std::unique_ptr<Scene>>;

/// Adds two trials for each call stack: its first call fails, and all calls from it on fail.
void add_calls(std::vector<Trial>& trials, std::size_t command, const Scene& scene, std::string_view call,
               std::span<const std::string_view> errors) {
  const std::vector<long long> calls = scene.calls(std::string(call));
  for (const std::string_view error : errors)
    for (const long long i : calls)
      for (const char* const count : {":1", ""})
        trials.push_back({command, fmt::format("{}:{}:#{}{}", call, error, i, count)});
}

std::vector<Trial> trials_of(std::string_view what, const Scenes& scenes) {
  std::vector<Trial> trials;
  std::mt19937 random(1);
  for (std::size_t i = 0; i < scenes.size(); ++i) {
    if (scenes[i] == nullptr) continue;
    if (what == "memory") {
      for (const std::string_view call : kMemoryCalls) {
        const std::string_view error = call == "thread" ? "EAGAIN" : "ENOMEM";
        add_calls(trials, i, *scenes[i], call, {&error, 1});
      }
    } else if (what == "files") {
      for (const FileFault& fault : kFileFaults) add_calls(trials, i, *scenes[i], fault.call, fault.errors);
    } else if (what == "repeats") {
      for (const std::size_t threads : {1U, 2U, 4U})
        for (int j = 0; j < 1000; ++j) trials.push_back({.command = i, .threads = threads});
    } else {
      const Clock::time_point start = Clock::now();
      (void)scenes[i]->run();
      (void)scenes[i]->fault_in_files(true, false);
      std::uniform_real_distribution<double> moment(
          0, 1.2 * std::chrono::duration<double>(Clock::now() - start).count());
      for (const int number : {SIGKILL, SIGINT, SIGTERM, SIGHUP})
        for (int j = 0; j < 200; ++j) {
          const auto after = std::chrono::duration_cast<std::chrono::microseconds>(
              std::chrono::duration<double>(moment(random)));
          trials.push_back({i, "", LateSignal{number, after}});
        }
    }
  }
  std::ranges::shuffle(trials, random);
  return trials;
}

/// Returns what is wrong with standard error of a run that failed.
std::string fault_in_message(const RunResult& result) {
  constexpr std::size_t kLongest = 500;
  std::size_t errors = 0;
  for (std::string_view rest = result.err; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return "the last line of stderr has no end; ";
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    // What libgomp and libgfortran print before they give up, which no program can prevent.
    constexpr std::array kForeign = {
        "libgomp: Out of memory",   "Operating system error: Cannot allocate memory",
        "Error allocating",         "Fatal glibc error: ",
        "Memory allocation failed", "Allocating cleared memory failed"};
    if (line.empty() ||
        std::ranges::any_of(kForeign, [&](const char* begin) { return line.starts_with(begin); }))
      continue;
    if (!line.starts_with("attnctl: ")) return fmt::format("stderr has \"{}\"; ", line.substr(0, 200));
    if (line.size() > kLongest) return fmt::format("a line of {} bytes; ", line.size());
    if (!line.starts_with("attnctl: warning: ") && !line.starts_with("attnctl: continues ")) ++errors;
  }
  const std::size_t expected = result.status == 0 ? 0 : 1;
  return errors == expected ? "" : fmt::format("{} error messages; ", errors);
}

/// Runs a trial and returns what is wrong; empty if nothing is.
std::string finding_of(const Trial& trial, const Scene& scene) {
  RunOptions options{.signal = trial.signal};
  if (!trial.fault.empty()) options.environment = with_fault(trial.fault);
  const RunResult result = scene.run(options, trial.threads);
  const bool memory =
      std::ranges::any_of(kMemoryCalls, [&](const char* call) { return trial.fault.starts_with(call); });
  const bool killed = trial.signal && trial.signal->number == SIGKILL;
  std::vector<int> allowed = {0};
  if (!trial.fault.empty()) allowed.push_back(memory ? 5 : 4);
  // Before the handlers of signals are installed, a signal ends the process as always.
  if (trial.signal) allowed.insert(allowed.end(), {128 + trial.signal->number, 130});
  std::string wrong;
  if (std::ranges::find(allowed, result.status) == allowed.end())
    wrong += fmt::format("status {}; ", result.status);
  if (!killed && result.status < 128) wrong += fault_in_message(result);
  // An old folder cannot be removed if nobody can tell which of its files are new.
  wrong += scene.fault_in_files(result.status == 0, killed || trial.fault.starts_with("stat"));
  if (killed && wrong.empty()) {
    (void)scene.run(options);
    wrong = scene.fault_in_next_run();
  }
  if (!wrong.empty()) wrong += fmt::format("stderr: {}", result.err.substr(0, 600));
  return wrong;
}

int main_of(std::span<char*> arguments) {
  const std::vector<std::string_view> words(arguments.begin() + 1, arguments.end());
  const auto value_of = [&](std::string_view option) {
    const auto at = std::ranges::find(words, option);
    return at == words.end() || at + 1 == words.end() ? std::string() : std::string(at[1]);
  };
  const std::string_view what = words.empty() ? "" : words.front();
  if (what != "memory" && what != "files" && what != "signals" && what != "repeats") {
    fmt::print(stderr, "attnctl_faults memory|files|signals|repeats [--seconds S] [--command NAME]\n");
    return 2;
  }
  const std::string seconds = value_of("--seconds");
  const auto end =
      seconds.empty() ? Clock::time_point::max() : Clock::now() + std::chrono::seconds(std::stoll(seconds));
  const auto new_scenes = [&] {
    Scenes scenes;
    for (const TestedCommand& command : kCommands) {
      const std::string wanted = value_of("--command");
      scenes.push_back(wanted.empty() || wanted == command.name ? std::make_unique<Scene>(command) : nullptr);
    }
    return scenes;
  };
  const Scenes first = new_scenes();
  const std::vector<Trial> trials = trials_of(what, first);
  std::vector<std::size_t> planned(kCommands.size()), tried(kCommands.size());
  for (const Trial& trial : trials) ++planned[trial.command];
  std::atomic<std::size_t> next = 0, findings = 0;
  std::mutex printing;
  const auto work = [&](const Scenes& scenes) {
    for (std::size_t i = next++; i < trials.size() && Clock::now() < end; i = next++) {
      const std::string wrong = finding_of(trials[i], *scenes[trials[i].command]);
      const std::lock_guard lock(printing);
      ++tried[trials[i].command];
      if (wrong.empty()) continue;
      ++findings;
      fmt::print("{}, {}: {}\n", kCommands[trials[i].command].name, trials[i].text(), wrong);
      std::fflush(stdout);
    }
  };
  {
    const std::jthread second([&] { work(new_scenes()); });
    work(first);
  }
  for (std::size_t i = 0; i < kCommands.size(); ++i)
    if (planned[i] > 0)
      fmt::print("{}: {}: {} of {} faults tried\n", what, kCommands[i].name, tried[i], planned[i]);
  fmt::print("{}: {} findings\n", what, findings.load());
  return findings == 0 ? 0 : 1;
}

}  // namespace
}  // namespace attnctl::test

int main(int argc, char** argv) try {
  return attnctl::test::main_of({argv, static_cast<std::size_t>(argc)});
} catch (const std::exception& error) {
  std::fprintf(stderr, "attnctl_faults: %s\n", error.what());
  return 2;
}

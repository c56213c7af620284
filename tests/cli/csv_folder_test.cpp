// A folder of CSV tables always holds all tables of one run, and never loses files.
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <vector>

#include <doctest/doctest.h>

#include "support/fault.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

/// Returns the entries of a folder by name: the bytes of files and the targets of links.
Files files_in(const fs::path& folder) {
  Files files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_symlink())
      files[name] = "-> " + fs::read_symlink(entry.path()).string();
    else
      files[name] = entry.is_directory() ? "a folder" : slurp(entry.path());
  }
  return files;
}

/// Writes several tables to `out`. Their contents depend on `ids`.
RunResult write_tables(const fs::path& out, const std::string& ids, const RunOptions& options = {}) {
  return run_attnctl({"analyze", ATTNCTL_SOURCE_DIR "/tests/golden/llama", "--ids", ids, "--include",
                      "metrics,patterns,weights", "--threads", "1", "--format", "csv", "-o", out.string()},
                     options);
}

/// The tables of two different runs.
struct TwoRuns {
  TempDir folder;
  fs::path out = folder.path() / "out";
  Files first = tables("1,2,3");
  Files second = tables("4,5,6,7");

  [[nodiscard]] Files tables(const std::string& ids) const {
    const fs::path place = folder.path() / "alone";
    REQUIRE(write_tables(place, ids).status == 0);
    Files files = files_in(place);
    fs::remove_all(place);
    return files;
  }
  /// Writes the tables of the first run to `out`.
  void begin() const {
    fs::remove_all(out);
    REQUIRE(write_tables(out, "1,2,3").status == 0);
  }
  /// Returns whether the folder contains `out` only.
  [[nodiscard]] bool clean() const {
    const Files files = files_in(folder.path());
    return files.size() == 1 && files.contains("out");
  }
};

TEST_CASE("-o with a folder, or a path that ends with a slash, writes CSV tables") {
  const TempDir folder;
  const std::string path = folder.path().string();
  const std::vector<std::string> analyze = {"analyze",   "data/tiny-bert", "A cat.",
                                            "--include", "metrics",        "-o"};
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = analyze;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_attnctl(arguments);
  };
  CHECK(run({path + "/new/"}).status == 0);
  CHECK(std::filesystem::exists(folder.path() / "new" / "heads.csv"));
  CHECK(run({path}).status == 0);
  CHECK(std::filesystem::exists(folder.path() / "heads.csv"));
  const RunResult json = run({path, "--format", "json"});
  CHECK(json.status == 4);
  CHECK(json.err.find("or --format csv for a folder of tables") != std::string::npos);
  const RunResult table = run({path + "/other/", "--table", "heads"});
  CHECK(table.status == 4);
  CHECK(table.err.find("--table heads is written to one file") != std::string::npos);
}

}  // namespace

TEST_CASE("a run that is killed leaves the tables of one run") {
  const TwoRuns runs;
  REQUIRE(runs.first.size() >= 4);
  REQUIRE(runs.first != runs.second);
  for (const std::string call : {"create", "write", "fsync", "close", "rename", "exchange"}) {
    bool reached = true;
    for (int after = 0; reached; ++after) {
      CAPTURE(call);
      CAPTURE(after);
      REQUIRE(after < 40);
      runs.begin();
      const std::string at = std::to_string(call == "write" ? after * 600 : after);
      RunOptions options;
      options.environment = with_fault(call + ":KILL:" + at, runs.folder.path().string());
      reached = write_tables(runs.out, "4,5,6,7", options).status == 128 + SIGKILL;
      const Files now = files_in(runs.out);
      CHECK((now == runs.first || now == runs.second));
      if (!reached) CHECK(now == runs.second);
      for (const auto& entry : fs::directory_iterator(runs.folder.path()))
        if (entry.path() != runs.out) fs::remove_all(entry.path());
    }
  }
}

TEST_CASE("a run that fails or is interrupted leaves only the old tables") {
  const TwoRuns runs;
  for (const std::string fault : {"write:ENOSPC:400", "fsync:EIO:2", "close:EIO:1", "rename:EACCES:1",
                                  "create:EROFS:1", "write:INT:400", "rename:TERM:2", "fsync:INT"}) {
    CAPTURE(fault);
    runs.begin();
    RunOptions options;
    options.environment = with_fault(fault, "/.attnctl-");
    CHECK(write_tables(runs.out, "4,5,6,7", options).status != 0);
    CHECK(files_in(runs.out) == runs.first);
    CHECK(runs.clean());
  }
}

TEST_CASE("if several runs write a folder at the same time, all tables are from one run") {
  const TwoRuns runs;
  for (int round = 0; round < 15; ++round) {
    fs::remove_all(runs.out);
    RunOptions options;
    options.directory = runs.folder.path().string();
    const std::string command = "attnctl analyze " ATTNCTL_SOURCE_DIR
                                "/tests/golden/llama --include metrics,patterns,weights --threads 1 --format "
                                "csv -o out --ids ";
    const RunResult result =
        run_shell(command + "1,2,3 & " + command + "4,5,6,7 & " + command + "1,2,3 & wait", options);
    CHECK_MESSAGE(result.err.empty(), result.err);
    const Files now = files_in(runs.out);
    CHECK((now == runs.first || now == runs.second));
    CHECK(runs.clean());
  }
}

TEST_CASE("other files in the folder are kept") {
  const TwoRuns runs;
  struct Row {
    const char* what;
    bool subfolder = false;
    const char* fault = nullptr;
    bool from_inside = false;
    bool attribute = false;
  };
  for (const Row& row :
       {Row{"exchanged"}, Row{"a folder in it", true}, Row{"no exchange", false, "exchange:EINVAL"},
        Row{"the working directory", false, nullptr, true},
        Row{"an attribute", false, nullptr, false, true}}) {
    CAPTURE(row.what);
    runs.begin();
    runs.folder.write("out/notes.txt", "mine");
    runs.folder.write("out/old.csv", "a table of another run");
    fs::create_symlink("../nowhere", runs.out / "link");
    fs::remove(runs.out / "heads.csv");
    runs.folder.write("elsewhere.csv", "not a table of this run");
    fs::create_symlink("../elsewhere.csv", runs.out / "heads.csv");
    if (row.subfolder) fs::create_directory(runs.out / "plots");
    REQUIRE(chmod(runs.out.c_str(), 0750) == 0);
    REQUIRE(chmod((runs.out / "inputs.csv").c_str(), 0640) == 0);
    if (row.attribute && setxattr(runs.out.c_str(), "user.note", "1", 1, 0) != 0) {
      MESSAGE("skipped: this file system has no extended attributes");
      continue;
    }
    RunOptions options;
    if (row.fault != nullptr) options.environment = with_fault(row.fault);
    if (row.from_inside) options.directory = runs.out.string();
    const RunResult result = write_tables(row.from_inside ? "." : runs.out.string(), "4,5,6,7", options);
    CHECK_MESSAGE(result.status == 0, result.err);
    Files wanted = runs.second;
    wanted.insert({{"notes.txt", "mine"}, {"old.csv", "a table of another run"}, {"link", "-> ../nowhere"}});
    if (row.subfolder) wanted["plots"] = "a folder";
    CHECK(files_in(runs.out) == wanted);
    CHECK(slurp(runs.folder.path() / "elsewhere.csv") == "not a table of this run");
    struct stat found {};
    REQUIRE(stat(runs.out.c_str(), &found) == 0);
    CHECK((found.st_mode & 07777U) == 0750);
    if (row.attribute) CHECK(getxattr(runs.out.c_str(), "user.note", nullptr, 0) == 1);
    REQUIRE(stat((runs.out / "inputs.csv").c_str(), &found) == 0);
    CHECK((found.st_mode & 07777U) == 0640);
    fs::remove(runs.folder.path() / "elsewhere.csv");
    CHECK(runs.clean());
  }
}

TEST_CASE("a link to a folder of tables is followed, and a table that is not a file is rejected") {
  const TwoRuns runs;
  runs.begin();
  const fs::path link = runs.folder.path() / "link";
  fs::create_directory_symlink("out", link);
  CHECK(write_tables(link, "4,5,6,7").status == 0);
  CHECK(fs::is_symlink(link));
  CHECK(files_in(runs.out) == runs.second);
  fs::remove(runs.out / "heads.csv");
  fs::create_directory(runs.out / "heads.csv");
  const RunResult result = write_tables(runs.out, "1,2,3");
  CHECK(result.status == 4);
  CHECK_MESSAGE(result.err.find("heads.csv: is not a file") != std::string::npos, result.err);
}

}  // namespace attnctl::test

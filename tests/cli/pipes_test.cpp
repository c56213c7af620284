// Pipes: a slow reader blocks the program, a closed pipe ends it, and a killed program has written complete
// records only. While the program waits for its standard input, signals arrive and its files change.

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/run.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

/// Returns a command that writes about 25 MB of JSON: two million numbers.
std::string large_document() {
  std::string ids = "1";
  for (int i = 1; i < 256; ++i) ids += "," + std::to_string(i * 37 % 250 + 1);
  return "attnctl analyze data/tiny-llama --ids " + ids +
         " --include patterns,scores --format json --threads 3";
}

TEST_CASE("a slow reader does not increase memory") {
  const RunResult free = run_shell(large_document() + " -o /dev/null");
  CHECK_MESSAGE(free.status == 0, free.err);
  const RunResult held = run_shell(large_document() + " | dd bs=64 2>/dev/null | wc -c");
  CHECK_MESSAGE(held.status == 0, held.err);
  CHECK(std::stoul(held.out) > 15000000);
  if (kSanitized) return;
  CHECK(held.peak_bytes < free.peak_bytes + 5000000);
}

TEST_CASE("a reader that closes the pipe early ends the run with status 0") {
  const TempDir folder;
  const std::string status = (folder.path() / "status").string();
  const RunResult result = run_shell("{ " + large_document() + "; echo $? > " + status +
                                     "; } | dd bs=1000 count=1000 of=/dev/null 2>&1");
  CHECK(result.status == 0);
  CHECK_MESSAGE(result.err.empty(), result.err);
  CHECK(slurp(status) == "0\n");
}

TEST_CASE("a killed program has written only complete records") {
  const TempDir folder;
  std::string texts;
  for (int i = 0; i < 20000; ++i) texts += "the cat sat down because it was tired\n";
  folder.write("in.txt", texts);
  const RunResult result = run_shell(
      "mkfifo $folder/pipe; attnctl tokenize data/tiny-bert --input $folder/in.txt --format jsonl > "
      "$folder/pipe & "
      "exec 3< $folder/pipe; head -c 300000 <&3 > $folder/out; kill -9 $!; wait $!; cat <&3 >> $folder/out",
      {.environment = {{"folder", folder.path().string()}}});
  CHECK_MESSAGE(result.status == 0, result.err);
  const std::string out = slurp(folder.path() / "out");
  CHECK(out.size() > 300000);
  CHECK(out.ends_with("}\n"));
}

TEST_CASE("SIGINT, SIGTERM and SIGHUP end a run with status 130, and the output keeps its content") {
  for (const std::string signal : {"INT", "TERM", "HUP"}) {
    CAPTURE(signal);
    const TempDir folder;
    folder.write("out.json", "old");
    // A pipe holds less than these bytes, so attnctl reads when all are written.
    const RunResult result = run_shell(
        "mkfifo $folder/in; attnctl tokenize data/tiny-bert --input - -o $folder/out.json < $folder/in & "
        "exec 3> $folder/in; yes the | head -c 300000 >&3; kill -$signal $!; wait $!",
        {.environment = {{"folder", folder.path().string()}, {"signal", signal}}});
    CHECK(result.status == 130);
    CHECK(result.err == "attnctl: interrupted\n");
    CHECK(slurp(folder.path() / "out.json") == "old");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
  }
}

TEST_CASE("a model or a corpus that changes during a run is status 3, and the output keeps its content") {
  struct Row {
    std::string command, file;
  };
  for (const Row& row :
       {Row{"analyze $folder/model --include metrics", "model/model.safetensors"},
        Row{"study $folder/model --measures metrics --input $folder/corpus.txt", "corpus.txt"}}) {
    CAPTURE(row.file);
    const TempDir folder;
    std::filesystem::copy("data/tiny-bert", folder.path() / "model");
    folder.write("corpus.txt", "the cat sat\n");
    folder.write("out.json", "old");
    const RunResult result =
        run_shell("{ yes '' | head -c 300000; touch $folder/" + row.file + "; echo the cat; } | attnctl " +
                      row.command + " --input - --input-format txt -o $folder/out.json",
                  {.environment = {{"folder", folder.path().string()}}});
    CHECK(result.status == 3);
    CHECK_MESSAGE(result.err == "attnctl: " + (folder.path() / row.file).string() +
                                    ": changed while it was read; run again\n",
                  result.err);
    CHECK(slurp(folder.path() / "out.json") == "old");
  }
}

TEST_CASE("npz for a pipe needs the directory TMPDIR, and leaves nothing there") {
  const TempDir folder;
  const std::vector<std::string> command = {"analyze", "data/tiny-bert", "the cat", "--format", "npz"};
  const RunResult result = run_attnctl(command, {.environment = {{"TMPDIR", folder.path().string()}}});
  CHECK_MESSAGE(result.status == 0, result.err);
  CHECK(std::filesystem::is_empty(folder.path()));
  const RunResult refused =
      run_attnctl(command, {.environment = {{"TMPDIR", (folder.path() / "none").string()}}});
  CHECK(refused.status == 4);
  CHECK(refused.out.empty());
  CHECK_MESSAGE(refused.err.find("set TMPDIR to use another directory") != std::string::npos, refused.err);
}

}  // namespace
}  // namespace attnctl::test

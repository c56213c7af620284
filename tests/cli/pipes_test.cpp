// Output to pipes: a slow reader blocks the program, a closed pipe ends it, and a killed program has written
// complete records only.

#include <cstddef>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

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

}  // namespace
}  // namespace attnctl::test

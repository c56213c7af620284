#include <cstddef>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::RunResult;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST_CASE("resident memory stays below the checkpoint's size and 64 MiB, patterns streamed or left out") {
  const std::filesystem::path model = std::filesystem::path(ATTNCTL_SHARED_DIR) / "models" / "stories15M";
  if (!std::filesystem::exists(model) || kSanitized) {
    MESSAGE("skipped: no shared models at " << model.string() << ", or built with a sanitizer");
    return;
  }
  std::mt19937 random(7);
  std::string ids = "1";
  for (int i = 1; i < 256; ++i) ids += "," + std::to_string(random() % 32000);
  const std::size_t most = std::filesystem::file_size(model / "model.safetensors") + (std::size_t{64} << 20);
  attnctl::test::TempDir dir;
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--include", "metrics,weights", "--format", "json"},
        std::vector<std::string>{"--include", "metrics,patterns,weights", "-o",
                                 (dir.path() / "x.npz").string()}}) {
    std::vector<std::string> command = {"analyze", model.string(), "--ids", ids, "--threads", "2"};
    command.insert(command.end(), more.begin(), more.end());
    const RunResult result = run_attnctl(command);
    CHECK_MESSAGE(result.status == 0, result.err);
    CAPTURE(more.back());
    CHECK(result.peak_bytes > 0);
    CHECK(result.peak_bytes < most);
    MESSAGE("peak resident " << result.peak_bytes / 1048576 << " MiB of " << most / 1048576);
  }
}

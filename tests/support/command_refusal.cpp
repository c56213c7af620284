#include "support/command_refusal.hpp"

#include <algorithm>
#include <iterator>

#include <doctest/doctest.h>

#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

bool is_one_clean_line(const std::string& text) {
  return text.ends_with('\n') && std::count_if(text.begin(), text.end(), [](char c) {
                                   return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
                                 }) == 1;
}

}  // namespace

void check_command_refuses(std::vector<std::string> arguments, const CommandRefusal& refusal) {
  const TempDir folder;
  const std::string old = "what was there before";
  const std::filesystem::path out = folder.write("out.json", old);
  if (std::find(arguments.begin(), arguments.end(), "-o") == arguments.end()) {
    arguments.insert(arguments.end(), {"-o", out.string()});
  }
  const RunResult result = run_attnctl(arguments, refusal.run);
  CHECK_MESSAGE(result.status == static_cast<int>(refusal.status), result.err);
  CHECK(result.out.empty());
  CHECK_MESSAGE(result.err.starts_with("attnctl: "), result.err);
  CHECK_MESSAGE(is_one_clean_line(result.err), result.err);
  for (const std::string& part : refusal.parts) {
    CHECK_MESSAGE(result.err.find(part) != std::string::npos, part, " is not in: ", result.err);
  }
  CHECK(slurp(out) == old);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  if (kSanitized) return;
  CHECK(result.cpu_seconds < refusal.seconds);
  CHECK(result.peak_bytes < refusal.file_bytes + (std::size_t{64} << 20U));
}

void check_weights_refused(const std::filesystem::path& file, Status status) {
  const TempDir folder;
  const std::filesystem::path config =
      folder.write("config.json", R"({"model_type": "attention", "heads": 1})");
  check_command_refuses({"weights", file.string(), "--config", config.string()},
                        {.status = status, .file_bytes = std::filesystem::file_size(file)});
}

}  // namespace attnctl::test

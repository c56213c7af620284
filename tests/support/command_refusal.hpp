#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "support/run.hpp"

namespace attnctl::test {

/// What is promised of a refusal by the command itself.
struct CommandRefusal {
  Status status = Status::bad_input;
  std::vector<std::string> parts = {};  // of the message
  double seconds = 1;                   // of CPU, most
  std::size_t file_bytes = 0;           // memory stays below this and 64 MiB
  RunOptions run = {};
};

/// Runs attnctl with `-o` at a file that holds something, and checks that it refuses: the status, one line on
/// standard error ("attnctl: ...", no control bytes), nothing on standard output, the old file untouched and
/// no temporary beside it, little time and memory (not looked at under a sanitizer).
void check_command_refuses(std::vector<std::string> arguments, const CommandRefusal& refusal = {});

/// The same for a weights file that cannot be opened: `attnctl weights FILE`.
void check_weights_refused(const std::filesystem::path& file, Status status = Status::bad_input);

}  // namespace attnctl::test

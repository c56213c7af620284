#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "support/run.hpp"

namespace attnctl::test {

/// The expected behaviour of a command that refuses its input.
struct CommandRefusal {
  Status status = Status::bad_input;
  std::vector<std::string> parts = {};  // parts of the error message
  double seconds = 1;                   // maximum CPU time
  std::size_t file_bytes = 0;           // size of the input; the memory must stay below this plus 64 MiB
  RunOptions run = {};
};

/// Runs attnctl with `-o` set to an existing file, and checks that the command refuses its input. Checks the
/// status; that standard error has one line ("attnctl: ...", no control bytes) and standard output is empty;
/// that the old file is unchanged and no temporary file is left next to it; and, except under a sanitizer,
/// the CPU time and the memory.
void check_command_refuses(std::vector<std::string> arguments, const CommandRefusal& refusal = {});

/// Checks that `attnctl weights FILE` refuses a weights file in the same way.
void check_weights_refused(const std::filesystem::path& file, Status status = Status::bad_input);

}  // namespace attnctl::test

#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attnctl::test {

struct RunResult {
  int status = 0;  // exit status, or 128 + signal
  std::string out;
  std::string err;
  std::size_t peak_bytes = 0;  // largest resident memory
  double cpu_seconds = 0;      // user and system time
};

/// A signal that is sent to the program at a time after its start.
struct LateSignal {
  int number = SIGKILL;
  std::chrono::microseconds after{0};
};

struct RunOptions {
  std::string input = {};                               // standard input
  std::map<std::string, std::string> environment = {};  // added to the environment of the test
  std::string directory = ATTNCTL_SOURCE_DIR;
  std::optional<LateSignal> signal = {};
};

/// Runs the real binary with these arguments (without the program name).
RunResult run_attnctl(const std::vector<std::string>& arguments, const RunOptions& options = {});

/// Runs a command line with /bin/sh. The folder of attnctl comes first in PATH.
RunResult run_shell(const std::string& command, const RunOptions& options = {});

/// Does the same in a pseudo-terminal with this number of columns, which is standard input, output and error:
/// `out` has everything that the terminal received, and `options.input` is not used. Returns nullopt if no
/// pseudo-terminal can be opened, as in a bare chroot.
std::optional<RunResult> run_in_terminal(const std::string& command, std::size_t columns,
                                         const RunOptions& options = {});

}  // namespace attnctl::test

#pragma once

#include <stdexcept>
#include <string>

namespace attn {

/// The kind of an error. The values are the exit statuses of the program (docs/cli.md).
enum class Status : int {
  ok = 0,
  usage = 2,        // a wrong argument or option
  bad_input = 3,    // a file or an input has invalid content
  environment = 4,  // a file or library cannot be found, opened or written
  limit = 5,        // too large for a limit of memory, of the system or of the program
  non_finite = 6,   // a result has numbers that are not finite
  difference = 7,   // a comparison found a difference
  interrupted = 130,
};

/// The only exception type that attnctl throws for errors of users and of the environment. The message is one
/// line: file, tensor or field, found value, expected value, what to do.
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  [[nodiscard]] Status status() const noexcept { return status_; }

 private:
  Status status_;
};

}  // namespace attn

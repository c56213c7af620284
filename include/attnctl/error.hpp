#pragma once

#include <stdexcept>
#include <string>

namespace attn {

/// The kind of an error. The values are the exit statuses of the program attnctl (docs/cli.md).
enum class Status : int {
  ok = 0,
  usage = 2,        // an argument or option is wrong
  bad_input = 3,    // a file or an input has invalid content
  environment = 4,  // a file or library cannot be found, read or written
  limit = 5,        // the work needs more memory or a larger size than is allowed
  non_finite = 6,   // a weight or a result contains infinity or NaN
  difference = 7,   // a comparison found a difference
  interrupted = 130,
};

/// The only exception type that attnctl throws for user errors and for problems with files, libraries and
/// memory limits. The message is one line that says where the problem is, and usually what to do.
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  [[nodiscard]] Status status() const noexcept { return status_; }

 private:
  Status status_;
};

}  // namespace attn

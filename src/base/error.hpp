#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace attnctl {

/// Exit statuses of the program (docs/cli.md); each Error carries one.
enum class Status : int {
  ok = 0,
  usage = 2,
  bad_input = 3,
  environment = 4,
  limit = 5,
  non_finite = 6,
  difference = 7,
  interrupted = 130,
};

/// The only exception type that attnctl throws on purpose. The message is one line without the leading
/// "attnctl: ": file, tensor or field, what was found, what was expected, what to do.
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  [[nodiscard]] Status status() const noexcept { return status_; }

 private:
  Status status_;
};

/// Throws an Error; the message is formatted as fmt does.
template <typename... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(status, fmt::format(format, std::forward<Args>(args)...));
}

/// Text from outside (a path, a tensor's name, a token) made safe for one line of a terminal: control bytes,
/// DEL, C1 controls and bytes that are not UTF-8 become \xNN; everything else stays.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace attnctl

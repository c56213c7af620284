#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace attnctl {

/// Exit statuses of the program (docs/cli.md). Each Error carries one.
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

/// The only exception type that attnctl throws for errors of users and of the environment. The message is one
/// line without the leading "attnctl: ": file, tensor or field, found value, expected value, what to do.
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  [[nodiscard]] Status status() const noexcept { return status_; }

 private:
  Status status_;
};

/// Throws an Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(status, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace attnctl

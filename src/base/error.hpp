#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "attnctl/error.hpp"
#include "base/text.hpp"

namespace attnctl {

using attn::Error;
using attn::Status;

template <typename... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(status, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error(bad_input) with the message "FILE: ...". `file` must be escaped already.
template <typename... Args>
[[noreturn]] void refuse(std::string_view file, fmt::format_string<Args...> format, Args&&... args) {
  fail(Status::bad_input, "{}: {}", file, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace attnctl

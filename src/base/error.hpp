#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// A problem that does not stop the run but may affect the results.
struct Warning {
  std::string code;     // a stable identifier in snake_case, e.g. "non_finite_weight"
  std::string message;  // the message of the first occurrence
  std::uint64_t count;  // number of occurrences
};

/// The warnings of a run, one entry per code, in the order of the first occurrences. Thread-safe, but the
/// order and the messages are reproducible only if a single thread adds the warnings.
class Warnings {
 public:
  void add(std::string_view code, std::string_view message, std::uint64_t count = 1) {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(warnings_, code, &Warning::code);
    if (known == warnings_.end()) {
      warnings_.push_back({std::string(code), std::string(message), count});
    } else {
      known->count += count;
    }
  }
  [[nodiscard]] std::vector<Warning> list() const {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Warning> warnings_;
};

}  // namespace attnctl

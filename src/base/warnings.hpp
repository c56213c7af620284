#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl {

/// Something that a reader of the results should know and that is no error.
struct Warning {
  std::string code;     // stable, snake_case, e.g. "non_finite_weight"
  std::string message;  // of the first occurrence
  std::uint64_t count;  // how many times it occurred
};

/// Collects warnings by code in the order of their first occurrence. Safe to use from several threads, but
/// where the order or the first message matters, add from one.
class Warnings {
 public:
  void add(std::string_view code, std::string_view message, std::uint64_t count = 1);
  [[nodiscard]] std::vector<Warning> list() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Warning> warnings_;
};

}  // namespace attnctl

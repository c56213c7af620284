#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl {

/// A problem that does not stop the run, but that users of the results should know.
struct Warning {
  std::string code;     // stable, snake_case, e.g. "non_finite_weight"
  std::string message;  // of the first occurrence
  std::uint64_t count;  // how many times it occurred
};

/// Counts warnings by code, in the order of their first occurrence. Thread-safe. The order and the messages
/// are reproducible only if a single thread adds them.
class Warnings {
 public:
  void add(std::string_view code, std::string_view message, std::uint64_t count = 1);
  [[nodiscard]] std::vector<Warning> list() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Warning> warnings_;
};

}  // namespace attnctl

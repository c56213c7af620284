#include "base/warnings.hpp"

#include <algorithm>

namespace attnctl {

void Warnings::add(std::string_view code, std::string_view message, std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(warnings_.begin(), warnings_.end(),
                                  [&](const Warning& warning) { return warning.code == code; });
  if (known == warnings_.end()) {
    warnings_.push_back({std::string(code), std::string(message), count});
  } else {
    known->count += count;
  }
}

std::vector<Warning> Warnings::list() const {
  const std::lock_guard lock(mutex_);
  return warnings_;
}

}  // namespace attnctl

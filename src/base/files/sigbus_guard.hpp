#pragma once

#include <cstddef>
#include <span>

namespace attnctl {

/// A range of mapped memory in which a SIGBUS, raised where the file behind it is gone or cannot be read,
/// puts zeros in place of the rest of the range and is remembered. A SIGBUS anywhere else goes to whoever
/// handled it before. Make it after the mapping and destroy it before.
class SigbusGuard {
 public:
  /// Throws Error(limit) where too many ranges are guarded at once.
  explicit SigbusGuard(std::span<const std::byte> range);
  ~SigbusGuard();
  SigbusGuard(const SigbusGuard&) = delete;
  SigbusGuard& operator=(const SigbusGuard&) = delete;

  [[nodiscard]] bool faulted() const;

 private:
  std::size_t slot_;
};

}  // namespace attnctl

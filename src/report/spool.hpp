#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace attnctl {

/// A temporary file without a name, for what must be gathered before it can go out in order. It is gone with
/// the process, however that ends. Throws Error(environment).
class Spool {
 public:
  Spool();
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Safe from several threads on disjoint ranges.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Fills `bytes` from what was written at `offset`.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::string name_;
  int descriptor_ = -1;
};

}  // namespace attnctl

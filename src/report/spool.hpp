#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace attnctl {

/// An unnamed temporary file for data that must be collected before they can be written in order. It
/// disappears when the process ends, even after a crash. Throws Error(environment).
class Spool {
 public:
  Spool();
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Writes at `offset`. Thread-safe on disjoint ranges.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Fills `bytes` with the data written at `offset`.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::string name_;
  int descriptor_ = -1;
};

}  // namespace attnctl

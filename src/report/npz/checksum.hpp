#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

namespace attnctl {

/// The CRC-32 of a file whose pieces are written in any order. Adjacent pieces are joined, so the memory
/// grows only with the number of gaps. Thread-safe.
class ScatteredChecksum {
 public:
  /// Adds the bytes at `offset`. Throws std::logic_error if a piece overlaps another one.
  void add(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Returns the checksum if exactly the bytes 0 to size - 1 were added, otherwise nullopt.
  [[nodiscard]] std::optional<std::uint32_t> value(std::uint64_t size) const;

 private:
  struct Piece {
    std::uint64_t size;
    std::uint32_t crc;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Piece> pieces_;  // by offset; adjacent pieces are joined
};

}  // namespace attnctl

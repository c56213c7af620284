#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

namespace attnctl {

/// CRC-32 of a file whose pieces are written in any order: neighbouring pieces are joined as they come, so
/// that the memory is that of the gaps. Safe from several threads.
class ScatteredChecksum {
 public:
  /// Takes note of the bytes at `offset`. Throws std::logic_error where a piece overlaps another.
  void add(std::uint64_t offset, std::span<const std::byte> bytes);
  /// The checksum when exactly the bytes 0..size were written, else nothing.
  [[nodiscard]] std::optional<std::uint32_t> value(std::uint64_t size) const;

 private:
  struct Piece {
    std::uint64_t size;
    std::uint32_t crc;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Piece> pieces_;  // by offset; none touches its neighbour
};

}  // namespace attnctl

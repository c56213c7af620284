#include "report/npz/checksum.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include <zlib.h>

#include "formats/zip/zip_records.hpp"

namespace attnctl {
namespace {

std::uint32_t joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_size) {
  return static_cast<std::uint32_t>(crc32_combine(first, second, static_cast<z_off_t>(second_size)));
}

}  // namespace

void ScatteredChecksum::add(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  Piece piece{bytes.size(), crc32_of(bytes)};
  const std::lock_guard lock(mutex_);
  auto after = pieces_.upper_bound(offset);
  if (after != pieces_.end() && after->first < offset + piece.size) {
    throw std::logic_error("a part of an array is written twice");
  }
  if (after != pieces_.begin()) {
    const auto before = std::prev(after);
    const std::uint64_t before_end = before->first + before->second.size;
    if (before_end > offset) throw std::logic_error("a part of an array is written twice");
    if (before_end == offset) {
      offset = before->first;
      piece = {before->second.size + piece.size, joined(before->second.crc, piece.crc, piece.size)};
      pieces_.erase(before);
    }
  }
  if (after != pieces_.end() && after->first == offset + piece.size) {
    piece = {piece.size + after->second.size, joined(piece.crc, after->second.crc, after->second.size)};
    pieces_.erase(after);
  }
  pieces_.emplace(offset, piece);
}

std::optional<std::uint32_t> ScatteredChecksum::value(std::uint64_t size) const {
  const std::lock_guard lock(mutex_);
  if (size == 0 && pieces_.empty()) return crc32_of({});
  if (pieces_.size() != 1) return std::nullopt;
  const auto& [offset, piece] = *pieces_.begin();
  if (offset != 0 || piece.size != size) return std::nullopt;
  return piece.crc;
}

}  // namespace attnctl

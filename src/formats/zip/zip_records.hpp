#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The records of ZIP archives: PKWARE APPNOTE 6.3.3, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3.

namespace attnctl {

/// The fields of an archive member that its records store.
struct ZipMember {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t stored_size = 0;  // bytes in the archive
  std::uint64_t size = 0;         // bytes of the content
  std::uint64_t offset = 0;       // offset of the local header
};

inline constexpr std::uint32_t kZipLocalSignature = 0x04034B50;
inline constexpr std::uint32_t kZipCentralSignature = 0x02014B50;
inline constexpr std::uint32_t kZipEndSignature = 0x06054B50;
inline constexpr std::uint32_t kZip64EndSignature = 0x06064B50;
inline constexpr std::uint32_t kZip64LocatorSignature = 0x07064B50;
inline constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // the ZIP64 extra field holds the value
inline constexpr std::uint16_t kZip64ExtraId = 1;

/// Returns the local header. Its length depends only on the name and the size, so it can be written again
/// when the CRC and the stored size are known.
[[nodiscard]] std::string local_header(const ZipMember& member);

/// Returns the central directory and its end records for a directory that begins at `offset`.
[[nodiscard]] std::string central_directory(const std::vector<ZipMember>& members, std::uint64_t offset);

/// Returns the CRC-32 of the bytes.
[[nodiscard]] std::uint32_t crc32_of(std::span<const std::byte> bytes);

}  // namespace attnctl

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attnctl {

/// A member of a zip file, as its records describe it.
struct ZipMember {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t stored_size = 0;  // bytes in the zip
  std::uint64_t size = 0;         // bytes of the content
  std::uint64_t offset = 0;       // of its local header
};

/// The local header; its length depends on the name and size alone, so that it can be written again when
/// checksum and stored size are known. 64-bit sizes from 4 GiB less a little on, as deflate may add.
[[nodiscard]] std::string local_header(const ZipMember& member);

/// The directory and its end records for a zip whose directory begins at `offset`.
[[nodiscard]] std::string central_directory(const std::vector<ZipMember>& members, std::uint64_t offset);

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/files/input_file.hpp"

// Reading and writing of the records of ZIP archives: PKWARE APPNOTE 6.3.3, sections 4.3.7, 4.3.12, 4.3.14 to
// 4.3.16 and 4.5.3.

namespace attnctl::formats {

/// The fields of an archive member that are stored in its headers.
struct ZipMember {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t stored_size = 0;  // bytes of the data in the archive
  std::uint64_t size = 0;         // bytes of the unpacked content
  std::uint64_t offset = 0;       // offset of the local header

  bool operator==(const ZipMember&) const = default;
};

/// Returns the local header. Its length depends only on the name and the unpacked size. Therefore space
/// for the header can be reserved before the CRC and the stored size are known.
[[nodiscard]] std::string local_header(const ZipMember& member);

/// Returns the central directory, including its end records. `offset` is the position of the directory in the
/// archive.
[[nodiscard]] std::string central_directory(const std::vector<ZipMember>& members, std::uint64_t offset);

[[nodiscard]] std::uint32_t crc32_of(std::span<const std::byte> bytes);

/// A member of an archive that has passed the checks of read_zip_directory(). These do not include the CRC
/// and the unpacked size of deflated data, which unpack() checks.
struct StoredMember : ZipMember {
  std::span<const std::byte> data;  // as stored; may be deflated
};

/// Reads the directory of an archive (ZIP64 included). Returns the members sorted by name. Throws
/// Error(bad_input) if the archive is malformed, if a local header differs from its directory entry, if
/// members overlap or have the same name, if a name is not a plain relative path, or if a member is encrypted
/// or compressed other than by deflate. Throws Error(limit) if the unpacked members are much larger than the
/// file.
[[nodiscard]] std::vector<StoredMember> read_zip_directory(const MappedFile& file);

/// Returns the file name and the member name in quotes, for messages: FILE: member "NAME".
[[nodiscard]] std::string at_member(const MappedFile& file, const ZipMember& member);

/// Unpacks the first bytes of deflated data into `out` and returns their number, which is less than
/// out.size() only if the unpacked content is shorter. Error messages begin with `where`, the name of the
/// member. Throws Error(bad_input) if the unpacked part is not a valid deflate stream, and Error(limit) if
/// there is not enough memory.
[[nodiscard]] std::size_t unpack_first(const std::string& where, std::span<const std::byte> packed,
                                       std::span<std::byte> out);

/// Returns the whole content of a member. A deflated member is unpacked into `buffer`, and the result is a
/// view of `buffer`; otherwise it is a view of the file. Throws Error(bad_input) if the size or the CRC is
/// wrong or the data are not a valid deflate stream, and Error(limit) if there is not enough memory.
[[nodiscard]] std::span<const std::byte> unpack(const MappedFile& file, const StoredMember& member,
                                                std::vector<std::byte>& buffer);

}  // namespace attnctl::formats

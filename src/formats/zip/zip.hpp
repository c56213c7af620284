#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file_bytes.hpp"

namespace attnctl {

/// A member of a ZIP archive, checked: its data lie in the file, apart from those of all others.
struct ZipMember {
  std::string name;  // a plain relative path
  bool deflated = false;
  std::uint32_t crc = 0;
  std::size_t size = 0;             // unpacked
  std::span<const std::byte> data;  // as stored
};

/// The directory of an archive (PKWARE APPNOTE 6.3, ZIP64 included), ordered by name. Each local header must
/// say what the directory says. Throws Error: bad_input; limit (5) where the members unpack to far more than
/// the file's size.
[[nodiscard]] std::vector<ZipMember> read_zip_directory(const FileBytes& file);

/// The file's name and the member's, as errors begin.
[[nodiscard]] std::string at_member(const FileBytes& file, const ZipMember& member);

/// Unpacks a deflated member from its beginning. Throws Error(bad_input) for data that is no deflate stream.
class Inflater {
 public:
  Inflater(std::string where, std::span<const std::byte> packed);
  ~Inflater();
  Inflater(Inflater&&) = delete;
  Inflater& operator=(Inflater&&) = delete;

  /// Fills `out`, less at the end of the stream; gives how many bytes.
  [[nodiscard]] std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::string where_;
  std::unique_ptr<State> state_;
};

/// A whole member: `member.data` where it is stored, else unpacked into `buffer`. Its CRC and size are
/// checked. Throws Error(bad_input).
[[nodiscard]] std::span<const std::byte> unpack(const FileBytes& file, const ZipMember& member,
                                                std::vector<std::byte>& buffer);

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files/mapped_file.hpp"
#include "formats/zip/zip_records.hpp"

namespace attnctl {

/// A checked member of an archive. Its data do not overlap those of another member, and its name is a plain
/// relative path.
struct StoredMember : ZipMember {
  std::span<const std::byte> data;  // as stored, perhaps deflated
};

/// Reads the directory of an archive (ZIP64 included) and checks each local header against it. Returns the
/// members sorted by name. Throws Error: bad_input if the archive is malformed, limit if the members unpack
/// to much more than the size of the file.
[[nodiscard]] std::vector<StoredMember> read_zip_directory(const FileBytes& file);

/// Returns the name of the file and of the member, for the beginning of an error message.
[[nodiscard]] std::string at_member(const FileBytes& file, const ZipMember& member);

/// Unpacks a deflated member from its beginning. Throws Error(bad_input) if the data are not a deflate
/// stream.
class Inflater {
 public:
  Inflater(std::string where, std::span<const std::byte> packed);
  ~Inflater();
  Inflater(Inflater&&) = delete;
  Inflater& operator=(Inflater&&) = delete;

  /// Fills `out`, or a part of it at the end of the stream, and returns the number of bytes.
  [[nodiscard]] std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::string where_;
  std::unique_ptr<State> state_;
};

/// Returns the whole content of a member and checks its size and CRC. A deflated member is unpacked into
/// `buffer`. Throws Error(bad_input).
[[nodiscard]] std::span<const std::byte> unpack(const FileBytes& file, const StoredMember& member,
                                                std::vector<std::byte>& buffer);

}  // namespace attnctl

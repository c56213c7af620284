#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl::test {

/// A member of a zip file as a reader sees it that knows nothing of the writer: from the end record through
/// the directory to the local header, every field that stands twice compared, content inflated, CRC checked.
struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint64_t stored_size = 0;
  std::uint64_t offset = 0;  // of the local header
  std::uint32_t date_time = 0;
  std::string content;
};

/// Throws std::runtime_error on anything that does not fit.
std::vector<ZipEntry> read_zip(std::string_view file);

/// What a .npy file says and holds.
struct NpyFile {
  std::string header;  // the dictionary, padding stripped
  std::string data;
};

NpyFile read_npy(std::string_view content);

}  // namespace attnctl::test

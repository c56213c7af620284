#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl::test {

/// A member of a zip file. The reader is independent of the writer: it reads the end record, the directory
/// and the local headers, compares every field that is stored twice, inflates the content and checks the CRC.
struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint64_t stored_size = 0;
  std::uint64_t offset = 0;  // offset of the local header
  std::uint32_t date_time = 0;
  std::string content;
};

/// Throws std::runtime_error if anything is inconsistent.
std::vector<ZipEntry> read_zip(std::string_view file);

/// The header and the elements of a .npy file.
struct NpyFile {
  std::string header;  // the dictionary without padding
  std::string data;
};

NpyFile read_npy(std::string_view content);

}  // namespace attnctl::test

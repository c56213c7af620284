#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl::test {

/// Returns the low `count` bytes of a number, little-endian. Bytes after the eighth are zero.
std::string little_endian(std::uint64_t value, std::size_t count);

/// Returns the memory representation of the numbers.
template <typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

/// Returns a gzip file of one member.
std::string gzip(const std::string& text);

/// Returns a zstd file of one frame, with a checksum.
std::string zstd(const std::string& text);

/// Returns a safetensors file: the length of the header, the header, the data.
std::string safetensors(std::string_view header, std::string_view data);

/// Returns an NPY file: magic, version, length, dictionary, data.
std::string npy(std::string_view dictionary, std::string_view data, int version = 1);

/// A member of a ZIP archive. The fields after `data` replace the correct values of a valid archive.
struct ZipPart {
  std::string name;
  std::string data;
  bool deflated = false;
  bool zip64 = false;         // store the sizes in the extra field, as NumPy does in local headers
  bool sizes_follow = false;  // store the sizes after the data, as in an archive written to a pipe
  std::optional<std::string> local_name = std::nullopt;
  std::optional<std::uint32_t> crc = std::nullopt;
  std::optional<std::uint64_t> size = std::nullopt;          // unpacked size, in both headers
  std::optional<std::uint64_t> local_size = std::nullopt;    // unpacked size, in the local header
  std::optional<std::uint64_t> local_offset = std::nullopt;  // offset of the local header, in the directory
  std::uint32_t flags = 0;
  std::optional<std::uint32_t> method = std::nullopt;
};

/// Returns a ZIP archive. `zip64_end` adds the ZIP64 end records.
std::string zip(const std::vector<ZipPart>& parts, bool zip64_end = false);

}  // namespace attnctl::test

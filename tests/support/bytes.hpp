#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl::test {

/// The low `count` bytes of a number, little-endian; zeros after the eighth.
std::string little_endian(std::uint64_t value, std::size_t count);

/// Numbers as they lie in memory.
template <typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

/// A safetensors file: the header's length, the header, the data.
std::string safetensors(std::string_view header, std::string_view data);

/// An NPY file: magic, version, length, dictionary, data.
std::string npy(std::string_view dictionary, std::string_view data, int version = 1);

/// A member of a ZIP archive. What is set below `data` contradicts what a sound archive would say.
struct ZipPart {
  std::string name;
  std::string data;
  bool deflated = false;
  bool zip64 = false;         // sizes in the extra field, as NumPy writes local headers
  bool sizes_follow = false;  // as written to a pipe
  std::optional<std::string> local_name = std::nullopt;
  std::optional<std::uint32_t> crc = std::nullopt;
  std::optional<std::uint64_t> size = std::nullopt;          // unpacked, in both headers
  std::optional<std::uint64_t> local_size = std::nullopt;    // unpacked, in the local one
  std::optional<std::uint64_t> local_offset = std::nullopt;  // in the directory
  std::uint32_t flags = 0;
  std::optional<std::uint32_t> method = std::nullopt;
};

/// A ZIP archive; `zip64_end` writes the ZIP64 end records too.
std::string zip(const std::vector<ZipPart>& parts, bool zip64_end = false);

}  // namespace attnctl::test

#include "formats/zip/zip_records.hpp"

#include <algorithm>
#include <concepts>

#include <zlib.h>

namespace attnctl {
namespace {

constexpr std::uint64_t kMax16 = 0xFFFF;
constexpr std::uint16_t kVersionDeflate = 20;
constexpr std::uint16_t kVersionZip64 = 45;
constexpr std::uint16_t kUnixHost = 3U << 8U;
constexpr std::uint32_t kUnixMode = 0100644U << 16U;
constexpr std::uint16_t kTime = 0;
constexpr std::uint16_t kDate = 1U << 5U | 1U;  // 1980-01-01

template <std::unsigned_integral T>
void put(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
}

void put16(std::string& bytes, std::uint64_t value) {
  put(bytes, static_cast<std::uint16_t>(std::min(value, kMax16)));
}

void put32(std::string& bytes, std::uint64_t value) {
  put(bytes, static_cast<std::uint32_t>(std::min(value, std::uint64_t{kIn64})));
}

/// Returns true if the sizes need 64 bits: from slightly below 4 GiB on, because deflate may add bytes.
bool has_long_sizes(const ZipMember& member) {
  return member.size + member.size / 1000 + 65536 >= kIn64;
}

/// Appends the fields from the version to the CRC, which both headers share.
void put_common(std::string& bytes, const ZipMember& member, bool zip64) {
  put(bytes, zip64 ? kVersionZip64 : kVersionDeflate);
  put16(bytes, 0);  // flags: names are ASCII
  put16(bytes, member.deflated ? 8 : 0);
  put(bytes, kTime);
  put(bytes, kDate);
  put(bytes, member.crc);
}

std::string directory_entry(const ZipMember& member) {
  const bool long_sizes = has_long_sizes(member);
  const bool long_offset = member.offset >= kIn64;
  std::string extra;
  if (long_sizes || long_offset) {
    put(extra, kZip64ExtraId);
    put16(extra, (long_sizes ? 16U : 0U) + (long_offset ? 8U : 0U));
    if (long_sizes) put(extra, member.size);
    if (long_sizes) put(extra, member.stored_size);
    if (long_offset) put(extra, member.offset);
  }
  std::string bytes;
  put(bytes, kZipCentralSignature);
  put(bytes, static_cast<std::uint16_t>(kUnixHost | (extra.empty() ? kVersionDeflate : kVersionZip64)));
  put_common(bytes, member, !extra.empty());
  put32(bytes, long_sizes ? kIn64 : member.stored_size);
  put32(bytes, long_sizes ? kIn64 : member.size);
  put16(bytes, member.name.size());
  put16(bytes, extra.size());
  put16(bytes, 0);  // comment
  put16(bytes, 0);  // disk
  put16(bytes, 0);  // internal attributes
  put32(bytes, kUnixMode);
  put32(bytes, member.offset);
  return bytes + member.name + extra;
}

std::string zip64_end(std::uint64_t members, std::uint64_t size, std::uint64_t offset) {
  std::string bytes;
  put(bytes, kZip64EndSignature);
  put(bytes, std::uint64_t{44});  // bytes of this record that follow
  put(bytes, static_cast<std::uint16_t>(kUnixHost | kVersionZip64));
  put(bytes, kVersionZip64);
  put32(bytes, 0);  // this disk
  put32(bytes, 0);  // the directory's disk
  put(bytes, members);
  put(bytes, members);
  put(bytes, size);
  put(bytes, offset);
  put(bytes, kZip64LocatorSignature);
  put32(bytes, 0);  // the disk of the record above
  put(bytes, offset + size);
  put32(bytes, 1);  // disks
  return bytes;
}

}  // namespace

std::string local_header(const ZipMember& member) {
  const bool long_sizes = has_long_sizes(member);
  std::string bytes;
  put(bytes, kZipLocalSignature);
  put_common(bytes, member, long_sizes);
  put32(bytes, long_sizes ? kIn64 : member.stored_size);
  put32(bytes, long_sizes ? kIn64 : member.size);
  put16(bytes, member.name.size());
  put16(bytes, long_sizes ? 20 : 0);
  bytes += member.name;
  if (long_sizes) {
    put(bytes, kZip64ExtraId);
    put16(bytes, 16);
    put(bytes, member.size);
    put(bytes, member.stored_size);
  }
  return bytes;
}

std::string central_directory(const std::vector<ZipMember>& members, std::uint64_t offset) {
  std::string bytes;
  for (const ZipMember& member : members) bytes += directory_entry(member);
  const std::uint64_t size = bytes.size();
  const std::uint64_t count = members.size();
  if (count >= kMax16 || size >= kIn64 || offset >= kIn64) bytes += zip64_end(count, size, offset);
  put(bytes, kZipEndSignature);
  put16(bytes, 0);  // this disk
  put16(bytes, 0);  // the directory's disk
  put16(bytes, count);
  put16(bytes, count);
  put32(bytes, size);
  put32(bytes, offset);
  put16(bytes, 0);  // comment
  return bytes;
}

std::uint32_t crc32_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace attnctl

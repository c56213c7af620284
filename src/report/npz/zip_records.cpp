#include "report/npz/zip_records.hpp"

#include <algorithm>
#include <concepts>

namespace attnctl {
namespace {

// Field by field as in APPNOTE 6.3.3, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3.

constexpr std::uint64_t max16 = 0xFFFF;
constexpr std::uint64_t max32 = 0xFFFFFFFF;
constexpr std::uint16_t version_plain = 20;  // deflate
constexpr std::uint16_t version_zip64 = 45;
constexpr std::uint16_t unix_host = 3U << 8U;
constexpr std::uint32_t unix_mode = 0100644U << 16U;
constexpr std::uint16_t fixed_time = 0;
constexpr std::uint16_t fixed_date = 1U << 5U | 1U;  // 1980-01-01
constexpr std::uint16_t zip64_id = 1;

template <std::unsigned_integral T>
void put(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
}

void put16(std::string& bytes, std::uint64_t value) {
  put(bytes, static_cast<std::uint16_t>(std::min(value, max16)));
}

void put32(std::string& bytes, std::uint64_t value) {
  put(bytes, static_cast<std::uint32_t>(std::min(value, max32)));
}

bool has_long_sizes(const ZipMember& member) {
  return member.size + member.size / 1000 + 65536 >= max32;
}

/// From the version needed to the CRC: alike in both headers.
void put_common(std::string& bytes, const ZipMember& member, bool zip64) {
  put(bytes, zip64 ? version_zip64 : version_plain);
  put16(bytes, 0);  // flags: names are ASCII
  put16(bytes, member.deflated ? 8 : 0);
  put(bytes, fixed_time);
  put(bytes, fixed_date);
  put(bytes, member.crc);
}

std::string directory_entry(const ZipMember& member) {
  const bool long_sizes = has_long_sizes(member);
  const bool long_offset = member.offset >= max32;
  std::string extra;
  if (long_sizes || long_offset) {
    put(extra, zip64_id);
    put16(extra, (long_sizes ? 16U : 0U) + (long_offset ? 8U : 0U));
    if (long_sizes) put(extra, member.size);
    if (long_sizes) put(extra, member.stored_size);
    if (long_offset) put(extra, member.offset);
  }
  std::string bytes = "PK\x01\x02";
  put(bytes, static_cast<std::uint16_t>(unix_host | (extra.empty() ? version_plain : version_zip64)));
  put_common(bytes, member, !extra.empty());
  put32(bytes, long_sizes ? max32 : member.stored_size);
  put32(bytes, long_sizes ? max32 : member.size);
  put16(bytes, member.name.size());
  put16(bytes, extra.size());
  put16(bytes, 0);  // comment
  put16(bytes, 0);  // disk
  put16(bytes, 0);  // internal attributes
  put32(bytes, unix_mode);
  put32(bytes, member.offset);
  return bytes + member.name + extra;
}

std::string zip64_end(std::uint64_t members, std::uint64_t size, std::uint64_t offset) {
  std::string bytes = "PK\x06\x06";
  put(bytes, std::uint64_t{44});  // what follows of this record
  put(bytes, static_cast<std::uint16_t>(unix_host | version_zip64));
  put(bytes, version_zip64);
  put32(bytes, 0);  // this disk
  put32(bytes, 0);  // the directory's disk
  put(bytes, members);
  put(bytes, members);
  put(bytes, size);
  put(bytes, offset);
  bytes += "PK\x06\x07";
  put32(bytes, 0);  // the disk of the record above
  put(bytes, offset + size);
  put32(bytes, 1);  // disks
  return bytes;
}

}  // namespace

std::string local_header(const ZipMember& member) {
  const bool long_sizes = has_long_sizes(member);
  std::string bytes = "PK\x03\x04";
  put_common(bytes, member, long_sizes);
  put32(bytes, long_sizes ? max32 : member.stored_size);
  put32(bytes, long_sizes ? max32 : member.size);
  put16(bytes, member.name.size());
  put16(bytes, long_sizes ? 20 : 0);
  bytes += member.name;
  if (long_sizes) {
    put(bytes, zip64_id);
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
  if (count >= max16 || size >= max32 || offset >= max32) bytes += zip64_end(count, size, offset);
  bytes += "PK\x05\x06";
  put16(bytes, 0);  // this disk
  put16(bytes, 0);  // the directory's disk
  put16(bytes, count);
  put16(bytes, count);
  put32(bytes, size);
  put32(bytes, offset);
  put16(bytes, 0);  // comment
  return bytes;
}

}  // namespace attnctl

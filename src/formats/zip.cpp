#include "formats/zip.hpp"

#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <zlib.h>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"

namespace attnctl::formats {
namespace {

constexpr std::uint32_t kZipLocalSignature = 0x04034B50;
constexpr std::uint32_t kZipCentralSignature = 0x02014B50;
constexpr std::uint32_t kZipEndSignature = 0x06054B50;
constexpr std::uint32_t kZip64EndSignature = 0x06064B50;
constexpr std::uint32_t kZip64LocatorSignature = 0x07064B50;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // marks a value that is stored in a ZIP64 field instead
constexpr std::uint16_t kZip64ExtraId = 1;

constexpr std::uint16_t kZero16 = 0;
constexpr std::uint32_t kZero32 = 0;
constexpr std::uint64_t kMax16 = 0xFFFF;
constexpr std::uint16_t kVersionDeflate = 20;
constexpr std::uint16_t kVersionZip64 = 45;
constexpr std::uint16_t kUnixHost = 3U << 8U;
constexpr std::uint32_t kUnixMode = 0100644U << 16U;
constexpr std::uint16_t kTime = 0;
constexpr std::uint16_t kDate = 1U << 5U | 1U;  // 1980-01-01

/// Appends little-endian numbers, each with the size of its type.
template <std::unsigned_integral... T>
void put(std::string& bytes, T... values) {
  const auto put_one = [&](auto value) {
    for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
  };
  (put_one(values), ...);
}

/// put16() and put32() append a number with 16 or 32 bits, or the largest number of this size if `value` does
/// not fit.
void put16(std::string& bytes, std::uint64_t value) {
  put(bytes, static_cast<std::uint16_t>(std::min(value, kMax16)));
}

void put32(std::string& bytes, std::uint64_t value) {
  put(bytes, static_cast<std::uint32_t>(std::min(value, std::uint64_t{kIn64})));
}

/// Returns true if the sizes may need 64 bits. The limit is slightly below 4 GiB, because deflated data may
/// be a little larger than the content.
bool has_long_sizes(const ZipMember& member) {
  return member.size + member.size / 1000 + 65536 >= kIn64;
}

/// Appends the fields from the version to the size of the extra field. They are equal in the local header and
/// in the directory entry, except for the version and this size, which depend on the extra field.
void put_common(std::string& bytes, const ZipMember& member, const std::string& extra) {
  const bool long_sizes = has_long_sizes(member);
  put(bytes, extra.empty() ? kVersionDeflate : kVersionZip64);
  put16(bytes, 0);  // flags: names are ASCII
  put16(bytes, member.deflated ? 8 : 0);
  put(bytes, kTime, kDate, member.crc);
  put32(bytes, long_sizes ? kIn64 : member.stored_size);
  put32(bytes, long_sizes ? kIn64 : member.size);
  put16(bytes, member.name.size());
  put16(bytes, extra.size());
}

std::string zip64_extra(const ZipMember& member, bool sizes, bool offset) {
  std::string extra;
  if (!sizes && !offset) return extra;
  put(extra, kZip64ExtraId);
  put16(extra, (sizes ? 16U : 0U) + (offset ? 8U : 0U));
  if (sizes) put(extra, member.size, member.stored_size);
  if (offset) put(extra, member.offset);
  return extra;
}

std::string directory_entry(const ZipMember& member) {
  const std::string extra = zip64_extra(member, has_long_sizes(member), member.offset >= kIn64);
  std::string bytes;
  put(bytes, kZipCentralSignature);
  put(bytes, static_cast<std::uint16_t>(kUnixHost | (extra.empty() ? kVersionDeflate : kVersionZip64)));
  put_common(bytes, member, extra);
  put(bytes, kZero16, kZero16, kZero16);  // comment, disk, internal attributes
  put(bytes, kUnixMode);
  put32(bytes, member.offset);
  return bytes + member.name + extra;
}

std::string zip64_end(std::uint64_t members, std::uint64_t size, std::uint64_t offset) {
  std::string bytes;
  put(bytes, kZip64EndSignature, std::uint64_t{44});  // number of bytes after this field
  put(bytes, static_cast<std::uint16_t>(kUnixHost | kVersionZip64), kVersionZip64);
  put(bytes, kZero32, kZero32);  // this disk, the directory's disk
  put(bytes, members, members, size, offset);
  put(bytes, kZip64LocatorSignature, kZero32);  // the disk of the record above
  put(bytes, offset + size, std::uint32_t{1});  // number of disks
  return bytes;
}

constexpr std::size_t kEndSize = 22;
constexpr std::size_t kLocatorSize = 20;
constexpr std::size_t kCentralSize = 46;
constexpr std::size_t kLocalSize = 30;
constexpr unsigned kEncrypted = 1U << 0 | 1U << 6 | 1U << 13;
constexpr unsigned kSizesFollow = 1U << 3;
// The deflated members may together unpack to up to kFreeBytes + kMaxRatio * (size of the archive) bytes.
// Deflate makes usual weights smaller by a factor far below kMaxRatio, and the content of a zip bomb by a
// factor of about 1000.
constexpr std::size_t kFreeBytes = std::size_t{32} << 20;
constexpr std::size_t kMaxRatio = 32;

/// Reads little-endian numbers and texts at offsets of a file. The functions u16(), u32(), u64() and text()
/// throw Error(bad_input) if the bytes are not all in the file.
class Bytes {
 public:
  explicit Bytes(const MappedFile& file) : file_(file) {}

  [[nodiscard]] unsigned u16(std::uint64_t offset) const {
    return static_cast<unsigned>(little_endian(text(offset, 2)));
  }
  [[nodiscard]] std::uint32_t u32(std::uint64_t offset) const {
    return static_cast<std::uint32_t>(little_endian(text(offset, 4)));
  }
  [[nodiscard]] std::uint64_t u64(std::uint64_t offset) const { return little_endian(text(offset, 8)); }

  [[nodiscard]] std::string_view text(std::uint64_t offset, std::size_t size) const {
    const auto end = checked_add<std::uint64_t>(offset, size);
    if (!end || *end > file_.bytes().size())
      refuse("a record that reaches beyond the end of the file", offset);
    return file_.text().substr(static_cast<std::size_t>(offset), size);
  }
  [[nodiscard]] std::uint64_t size() const { return file_.bytes().size(); }

  [[noreturn]] void refuse(std::string_view got, std::uint64_t offset) const {
    attnctl::refuse(file_.name(), "got {} @byte {}, need a whole ZIP archive", got, offset);
  }

 private:
  const MappedFile& file_;
};

struct Directory {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t count = 0;  // number of entries
};

std::uint64_t find_end_record(const Bytes& bytes) {
  constexpr std::uint64_t kMaxCommentSize = 0xFFFF;
  if (bytes.size() < kEndSize) bytes.refuse("too few bytes", 0);
  const std::uint64_t last = bytes.size() - kEndSize;
  const std::uint64_t first = last > kMaxCommentSize ? last - kMaxCommentSize : 0;
  for (std::uint64_t at = last + 1; at-- > first;) {
    if (bytes.u32(at) == kZipEndSignature && at + kEndSize + bytes.u16(at + 20) == bytes.size()) return at;
  }
  bytes.refuse("no end-of-directory record", last);
}

Directory find_directory(const Bytes& bytes) {
  const std::uint64_t end_record = find_end_record(bytes);
  Directory directory;
  std::uint64_t size = bytes.u32(end_record + 12);
  directory.count = bytes.u16(end_record + 10);
  directory.begin = bytes.u32(end_record + 16);
  directory.end = end_record;
  if (end_record >= kLocatorSize && bytes.u32(end_record - kLocatorSize) == kZip64LocatorSignature) {
    const std::uint64_t record = bytes.u64(end_record - kLocatorSize + 8);
    if (bytes.u32(record) != kZip64EndSignature) bytes.refuse("no ZIP64 end record", record);
    directory.count = bytes.u64(record + 32);
    size = bytes.u64(record + 40);
    directory.begin = bytes.u64(record + 48);
    directory.end = record;
  }
  const auto end = checked_add(directory.begin, size);
  if (!end || *end != directory.end)
    bytes.refuse("a central directory that does not end where its end record begins", directory.begin);
  if (directory.count > size / kCentralSize)
    bytes.refuse("more members than the directory can hold", directory.begin);
  return directory;
}

/// The fields that must be equal in a local header and its directory entry. `offset` is only in the entry.
struct ZipHeader : ZipMember {
  unsigned flags = 0;
  unsigned method = 0;

  bool operator==(const ZipHeader&) const = default;
};

/// Replaces each value that equals kIn64 by the next number in the ZIP64 field, if there is such a field
/// among the extra fields, bytes [begin, end) of the file.
void read_extra(const Bytes& bytes, std::uint64_t begin, std::uint64_t end,
                std::initializer_list<std::uint64_t*> values) {
  const bool wanted = std::ranges::any_of(values, [](const std::uint64_t* v) { return *v == kIn64; });
  for (std::uint64_t at = begin; wanted && at + 4 <= end;) {
    const std::uint64_t size = bytes.u16(at + 2);
    const std::uint64_t next = at + 4 + size;
    if (next > end) bytes.refuse("an extra field that is cut", at);
    if (bytes.u16(at) == kZip64ExtraId) {
      std::uint64_t from = at + 4;
      for (std::uint64_t* value : values) {
        if (*value != kIn64) continue;
        if (from + 8 > next) bytes.refuse("a ZIP64 field that is cut", at);
        *value = bytes.u64(from);
        from += 8;
      }
      return;
    }
    at = next;
  }
}

/// Reads the fields that local headers and directory entries have in common: those from offset `flags` on,
/// and the name at offset `name`. Sets `extra` and `end` to the beginning and the end of the extra fields,
/// which follow the name.
ZipHeader read_header(const Bytes& bytes, std::uint64_t flags, std::uint64_t name, std::uint64_t& extra,
                      std::uint64_t& end) {
  ZipHeader header;
  header.flags = bytes.u16(flags);
  header.method = bytes.u16(flags + 2);
  header.deflated = header.method == 8;
  header.crc = bytes.u32(flags + 8);
  header.stored_size = bytes.u32(flags + 12);
  header.size = bytes.u32(flags + 16);
  const std::size_t name_size = bytes.u16(flags + 20);
  extra = name + name_size;
  end = extra + bytes.u16(flags + 22);
  header.name = bytes.text(name, name_size);
  return header;
}

/// Reads the directory entry at offset `at`, and sets `at` to the offset of the next entry.
ZipHeader read_central(const Bytes& bytes, std::uint64_t& at) {
  if (bytes.u32(at) != kZipCentralSignature) bytes.refuse("no directory entry", at);
  std::uint64_t extra = 0;
  std::uint64_t comment = 0;
  ZipHeader entry = read_header(bytes, at + 8, at + kCentralSize, extra, comment);
  entry.offset = bytes.u32(at + 42);
  read_extra(bytes, extra, comment, {&entry.size, &entry.stored_size, &entry.offset});
  at = comment + bytes.u16(at + 32);
  return entry;
}

/// Checks the local header against the directory entry and returns the offset of the data.
std::uint64_t check_local(const MappedFile& file, const Bytes& bytes, const ZipHeader& entry) {
  const std::uint64_t at = entry.offset;
  if (bytes.u32(at) != kZipLocalSignature) bytes.refuse("no local header of " + in_quotes(entry.name), at);
  std::uint64_t extra = 0;
  std::uint64_t data = 0;
  ZipHeader local = read_header(bytes, at + 6, at + kLocalSize, extra, data);
  local.offset = at;
  read_extra(bytes, extra, data, {&local.size, &local.stored_size});
  if ((local.flags & kSizesFollow) != 0 && local.crc == 0 && local.stored_size == 0 && local.size == 0) {
    local.crc = entry.crc;
    local.stored_size = entry.stored_size;
    local.size = entry.size;
  }
  if (local != entry) {
    refuse(at_member(file, entry),
           "its local header (byte {}) differs from its entry in the ZIP directory; the file is damaged", at);
  }
  return data;
}

void check_entry(const MappedFile& file, const ZipHeader& entry) {
  const std::string place = at_member(file, entry);
  if (const auto fault = path_fault(entry.name)) refuse(place, "got a name {}", *fault);
  if ((entry.flags & kEncrypted) != 0 || entry.method == 99)
    refuse(place, "is encrypted, which is unsupported; store it without encryption");
  if (entry.method != 0 && entry.method != 8)
    refuse(place, "unsupported compression method {}, need stored or deflated", entry.method);
  if (entry.method == 0 && entry.stored_size != entry.size) {
    refuse(place, "is not compressed, but its stored size is {} bytes and its unpacked size {}",
           entry.stored_size, entry.size);
  }
}

/// Throws Error(bad_input) if members overlap. Sorts the members by offset.
void check_overlaps(const MappedFile& file, std::vector<StoredMember>& members) {
  std::ranges::sort(members, {}, &StoredMember::offset);
  for (std::size_t i = 1; i < members.size(); ++i) {
    const auto& [before, member] = std::tie(members[i - 1], members[i]);
    if (file.bytes().data() + member.offset < before.data.data() + before.data.size())
      refuse(file.name(), "the members @byte {} and @byte {} overlap", before.offset, member.offset);
  }
}

void check_total(const MappedFile& file, const std::vector<StoredMember>& members) {
  const std::uint64_t allowed =
      saturating_sum<std::uint64_t>(kFreeBytes, saturating_product(kMaxRatio, file.bytes().size()));
  std::uint64_t total = 0;
  for (const StoredMember& member : members) {
    if (member.deflated) total = saturating_sum(total, member.size);
  }
  if (total > allowed) {
    fail(
        Status::limit,
        "{}: its compressed members unpack to more than {} bytes, over {} times the file; store them without "
        "compression",
        file.name(), allowed, kMaxRatio);
  }
}

}  // namespace

std::string local_header(const ZipMember& member) {
  const std::string extra = zip64_extra(member, has_long_sizes(member), false);
  std::string bytes;
  put(bytes, kZipLocalSignature);
  put_common(bytes, member, extra);
  return bytes + member.name + extra;
}

std::string central_directory(const std::vector<ZipMember>& members, std::uint64_t offset) {
  std::string bytes;
  for (const ZipMember& member : members) bytes += directory_entry(member);
  const std::uint64_t size = bytes.size();
  const std::uint64_t count = members.size();
  if (count >= kMax16 || size >= kIn64 || offset >= kIn64) bytes += zip64_end(count, size, offset);
  put(bytes, kZipEndSignature, kZero16, kZero16);  // this disk, the directory's disk
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

std::string at_member(const MappedFile& file, const ZipMember& member) {
  return fmt::format("{}: member {}", file.name(), in_quotes(member.name));
}

std::vector<StoredMember> read_zip_directory(const MappedFile& file) {
  const Bytes bytes(file);
  const Directory directory = find_directory(bytes);
  std::vector<StoredMember> members;
  std::uint64_t at = directory.begin;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    const ZipHeader entry = read_central(bytes, at);
    check_entry(file, entry);
    const std::uint64_t data = check_local(file, bytes, entry);
    const auto end = checked_add(data, entry.stored_size);
    if (!end || *end > directory.begin) {
      refuse(at_member(file, entry), "got {} bytes @byte {}, need them before the directory @byte {}",
             entry.stored_size, data, directory.begin);
    }
    members.push_back({entry, file.bytes().subspan(static_cast<std::size_t>(data),
                                                   static_cast<std::size_t>(entry.stored_size))});
  }
  if (at != directory.end) bytes.refuse("extra bytes in the directory", at);
  check_overlaps(file, members);
  std::ranges::sort(members, {}, &StoredMember::name);
  const auto twice = std::ranges::adjacent_find(members, {}, &StoredMember::name);
  if (twice != members.end())
    refuse(at_member(file, *twice), "another member has the same name; need different names");
  check_total(file, members);
  return members;
}

std::size_t unpack_first(const std::string& where, std::span<const std::byte> packed,
                         std::span<std::byte> out) {
  constexpr std::size_t kMaxCount = std::numeric_limits<uInt>::max();
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail(Status::limit, "{}: out of memory", where);
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> freed_at_the_end(&stream, inflateEnd);
  std::size_t filled = 0;
  for (int result = Z_OK; filled < out.size() && result != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      const std::size_t count = std::min(kMaxCount, packed.size());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
      stream.avail_in = static_cast<uInt>(count);
      packed = packed.subspan(count);
    }
    const std::size_t space = std::min(kMaxCount, out.size() - filled);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(space);
    result = inflate(&stream, Z_NO_FLUSH);
    filled += space - stream.avail_out;
    if (result == Z_MEM_ERROR) fail(Status::limit, "{}: out of memory", where);
    if (result != Z_OK && result != Z_STREAM_END) {
      refuse(where, "damaged: its deflate stream is invalid ({})",
             stream.msg != nullptr ? stream.msg : "it ends too early");
    }
  }
  return filled;
}

std::span<const std::byte> unpack(const MappedFile& file, const StoredMember& member,
                                  std::vector<std::byte>& buffer) {
  std::span<const std::byte> bytes = member.data;
  if (member.deflated) {
    buffer.resize(member.size + 1);  // one byte more, to notice content that is too long
    const std::size_t got = unpack_first(at_member(file, member), member.data, buffer);
    buffer.resize(member.size);
    if (got != member.size) {
      refuse(at_member(file, member), "damaged: unpacks to {} than the {} bytes that the directory states",
             got < member.size ? "less" : "more", member.size);
    }
    bytes = buffer;
  }
  const std::uint32_t crc = crc32_of(bytes);
  if (crc != member.crc)
    refuse(at_member(file, member), "damaged: got CRC {:08x}, need {:08x}", crc, member.crc);
  return bytes;
}

}  // namespace attnctl::formats

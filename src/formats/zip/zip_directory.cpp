#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/files/plain_path.hpp"
#include "base/shown.hpp"
#include "formats/zip/zip.hpp"

namespace attnctl {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034B50;
constexpr std::uint32_t kCentralSignature = 0x02014B50;
constexpr std::uint32_t kEndSignature = 0x06054B50;
constexpr std::uint32_t kEnd64Signature = 0x06064B50;
constexpr std::uint32_t kLocatorSignature = 0x07064B50;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kLocatorSize = 20;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kCentralSize = 46;
constexpr std::size_t kLocalSize = 30;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // the value stands in the ZIP64 extra field
constexpr unsigned kEncrypted = 1U << 0 | 1U << 6 | 1U << 13;
constexpr unsigned kSizesFollow = 1U << 3;
// An archive may unpack to this much plus this many times its size. Arrays of weights pack to no less than a
// half, pruned ones to no less than a tenth; what packs a thousand times better is a bomb.
constexpr std::size_t kFreeBytes = std::size_t{32} << 20;
constexpr std::size_t kLargestRatio = 32;

/// Little-endian numbers of a file, every read checked.
class Bytes {
 public:
  explicit Bytes(const FileBytes& file) : file_(file) {}

  [[nodiscard]] std::uint64_t number(std::uint64_t offset, std::size_t size) const {
    const std::string_view bytes = text(offset, size);
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }
  [[nodiscard]] unsigned u16(std::uint64_t offset) const { return static_cast<unsigned>(number(offset, 2)); }
  [[nodiscard]] std::uint32_t u32(std::uint64_t offset) const {
    return static_cast<std::uint32_t>(number(offset, 4));
  }
  [[nodiscard]] std::uint64_t u64(std::uint64_t offset) const { return number(offset, 8); }

  [[nodiscard]] std::string_view text(std::uint64_t offset, std::size_t size) const {
    const auto end = checked_add<std::uint64_t>(offset, size);
    if (!end || *end > file_.bytes().size())
      refuse("an archive whose directory points behind its end", offset);
    return file_.text().substr(static_cast<std::size_t>(offset), size);
  }
  [[nodiscard]] std::uint64_t size() const { return file_.bytes().size(); }

  [[noreturn]] void refuse(std::string_view got, std::uint64_t offset) const {
    fail(Status::bad_input, "{}: got {} @byte {}, need a whole ZIP archive", file_.name(), got, offset);
  }

 private:
  const FileBytes& file_;
};

struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t count = 0;
};

std::uint64_t find_end_record(const Bytes& bytes) {
  constexpr std::uint64_t kLongestComment = 0xFFFF;
  if (bytes.size() < kEndSize) bytes.refuse("too few bytes", 0);
  const std::uint64_t last = bytes.size() - kEndSize;
  const std::uint64_t first = last > kLongestComment ? last - kLongestComment : 0;
  for (std::uint64_t at = last + 1; at-- > first;) {
    if (bytes.u32(at) == kEndSignature && at + kEndSize + bytes.u16(at + 20) == bytes.size()) return at;
  }
  bytes.refuse("no end of the directory; was it downloaded whole?", last);
}

Directory find_directory(const Bytes& bytes) {
  const std::uint64_t end_record = find_end_record(bytes);
  Directory directory;
  std::uint64_t size = bytes.u32(end_record + 12);
  directory.count = bytes.u16(end_record + 10);
  directory.begin = bytes.u32(end_record + 16);
  directory.end = end_record;
  if (end_record >= kLocatorSize && bytes.u32(end_record - kLocatorSize) == kLocatorSignature) {
    const std::uint64_t record = bytes.u64(end_record - kLocatorSize + 8);
    if (bytes.text(record, kEnd64Size).empty() || bytes.u32(record) != kEnd64Signature) {
      bytes.refuse("no ZIP64 end record", record);
    }
    directory.count = bytes.u64(record + 32);
    size = bytes.u64(record + 40);
    directory.begin = bytes.u64(record + 48);
    directory.end = record;
  }
  const auto end = checked_add(directory.begin, size);
  if (!end || *end != directory.end)
    bytes.refuse("a directory of another size than it says", directory.begin);
  if (directory.count > size / kCentralSize)
    bytes.refuse("more members than its directory has room for", directory.begin);
  return directory;
}

/// What a local header and the directory say of a member.
struct Entry {
  std::string_view name;
  unsigned flags = 0;
  unsigned method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint64_t local = 0;  // offset of the local header
};

/// Takes the 64-bit values that the ZIP64 extra field holds for those that are all ones.
void read_extra(const Bytes& bytes, std::uint64_t begin, std::uint64_t end,
                std::initializer_list<std::uint64_t*> values) {
  const bool wanted =
      std::any_of(values.begin(), values.end(), [](const std::uint64_t* v) { return *v == kIn64; });
  for (std::uint64_t at = begin; wanted && at + 4 <= end;) {
    const std::uint64_t size = bytes.u16(at + 2);
    const std::uint64_t next = at + 4 + size;
    if (next > end) bytes.refuse("an extra field that is cut", at);
    if (bytes.u16(at) == 1) {
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

/// Reads the entry at `at` and moves `at` behind it.
Entry read_central(const Bytes& bytes, std::uint64_t& at) {
  if (bytes.u32(at) != kCentralSignature) bytes.refuse("no member where the directory has one", at);
  Entry entry;
  entry.flags = bytes.u16(at + 8);
  entry.method = bytes.u16(at + 10);
  entry.crc = bytes.u32(at + 16);
  entry.packed = bytes.u32(at + 20);
  entry.size = bytes.u32(at + 24);
  entry.local = bytes.u32(at + 42);
  const std::size_t name_size = bytes.u16(at + 28);
  const std::uint64_t extra = at + kCentralSize + name_size;
  const std::uint64_t comment = extra + bytes.u16(at + 30);
  entry.name = bytes.text(at + kCentralSize, name_size);
  read_extra(bytes, extra, comment, {&entry.size, &entry.packed, &entry.local});
  at = comment + bytes.u16(at + 32);
  return entry;
}

/// Compares the local header with the directory's entry; gives the offset of the member's data.
std::uint64_t check_local(const FileBytes& file, const Bytes& bytes, const Entry& entry) {
  const std::uint64_t at = entry.local;
  if (bytes.u32(at) != kLocalSignature) bytes.refuse("no local header of " + in_quotes(entry.name), at);
  Entry local;
  local.flags = bytes.u16(at + 6);
  local.method = bytes.u16(at + 8);
  local.crc = bytes.u32(at + 14);
  local.packed = bytes.u32(at + 18);
  local.size = bytes.u32(at + 22);
  const std::size_t name_size = bytes.u16(at + 26);
  const std::uint64_t extra = at + kLocalSize + name_size;
  const std::uint64_t data = extra + bytes.u16(at + 28);
  local.name = bytes.text(at + kLocalSize, name_size);
  read_extra(bytes, extra, data, {&local.size, &local.packed});
  if ((local.flags & kSizesFollow) != 0 && local.crc == 0 && local.packed == 0 && local.size == 0) {
    local.crc = entry.crc;
    local.packed = entry.packed;
    local.size = entry.size;
  }
  const auto same = [](const Entry& a, const Entry& b) {
    return a.name == b.name && a.flags == b.flags && a.method == b.method && a.crc == b.crc &&
           a.packed == b.packed && a.size == b.size;
  };
  if (!same(local, entry)) {
    fail(Status::bad_input, "{}: member {}: its local header @byte {} differs from the directory",
         file.name(), in_quotes(entry.name), at);
  }
  return data;
}

void check_entry(const FileBytes& file, const Entry& entry) {
  const std::string where = fmt::format("{}: member {}", file.name(), in_quotes(entry.name));
  if (const auto fault = path_fault(entry.name)) fail(Status::bad_input, "{}: got a name {}", where, *fault);
  if ((entry.flags & kEncrypted) != 0 || entry.method == 99)
    fail(Status::bad_input, "{}: unsupported: encrypted", where);
  if (entry.method != 0 && entry.method != 8) {
    fail(Status::bad_input, "{}: unsupported compression method {}, need stored or deflated", where,
         entry.method);
  }
  if (entry.method == 0 && entry.packed != entry.size) {
    fail(Status::bad_input, "{}: stored, but got {} bytes that unpack to {}", where, entry.packed,
         entry.size);
  }
}

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

void check_overlaps(const FileBytes& file, std::vector<Extent>& extents) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) {
      fail(Status::bad_input, "{}: the members @byte {} and @byte {} overlap", file.name(),
           extents[i - 1].begin, extents[i].begin);
    }
  }
}

void check_total(const FileBytes& file, const std::vector<ZipMember>& members) {
  const std::size_t allowed =
      checked_add(kFreeBytes, checked_mul(kLargestRatio, file.bytes().size()).value_or(SIZE_MAX - kFreeBytes))
          .value();
  std::size_t total = 0;
  for (const ZipMember& member : members) {
    if (!member.deflated) continue;
    const auto sum = checked_add(total, member.size);
    if (!sum || *sum > allowed) {
      fail(Status::limit,
           "{}: its members unpack to more than {} bytes, over {} times the file; store them unpacked",
           file.name(), allowed, kLargestRatio);
    }
    total = *sum;
  }
}

}  // namespace

std::string at_member(const FileBytes& file, const ZipMember& member) {
  return fmt::format("{}: member {}", file.name(), in_quotes(member.name));
}

std::vector<ZipMember> read_zip_directory(const FileBytes& file) {
  const Bytes bytes(file);
  const Directory directory = find_directory(bytes);
  std::vector<ZipMember> members;
  std::vector<Extent> extents;
  std::uint64_t at = directory.begin;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    const Entry entry = read_central(bytes, at);
    check_entry(file, entry);
    const std::uint64_t data = check_local(file, bytes, entry);
    const auto end = checked_add(data, entry.packed);
    if (!end || *end > directory.begin) {
      fail(Status::bad_input, "{}: member {}: got {} bytes @byte {}, need them before the directory @byte {}",
           file.name(), in_quotes(entry.name), entry.packed, data, directory.begin);
    }
    extents.push_back({entry.local, *end});
    members.push_back(
        {std::string(entry.name), entry.method == 8, entry.crc, static_cast<std::size_t>(entry.size),
         file.bytes().subspan(static_cast<std::size_t>(data), static_cast<std::size_t>(entry.packed))});
  }
  if (at != directory.end) bytes.refuse("bytes of no member in the directory", at);
  check_overlaps(file, extents);
  std::sort(members.begin(), members.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(members.begin(), members.end(),
                         [](const ZipMember& a, const ZipMember& b) { return a.name == b.name; });
  if (twice != members.end())
    fail(Status::bad_input, "{}: got it twice, need different names", at_member(file, *twice));
  check_total(file, members);
  return members;
}

}  // namespace attnctl

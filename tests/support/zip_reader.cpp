#include "support/zip_reader.hpp"

#include <stdexcept>

#include <zlib.h>

namespace attnctl::test {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("zip: ") + what);
}

std::uint64_t number(std::string_view file, std::uint64_t at, std::size_t bytes) {
  require(at + bytes <= file.size(), "a field past the end");
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i > 0; --i) value = value << 8U | static_cast<unsigned char>(file[at + i - 1]);
  return value;
}

/// The sizes and the offset, taken from the ZIP64 field if the 32-bit fields are 0xFFFFFFFF.
struct Extents {
  std::uint64_t size, stored, offset;
};

Extents extents(std::string_view file, std::uint64_t extra, std::uint64_t extra_size, Extents given) {
  for (std::uint64_t at = extra; at < extra + extra_size; at += 4 + number(file, at + 2, 2)) {
    if (number(file, at, 2) != 1) continue;
    std::uint64_t field = at + 4;
    for (std::uint64_t* value : {&given.size, &given.stored, &given.offset}) {
      if (*value != 0xFFFFFFFF) continue;
      *value = number(file, field, 8);
      field += 8;
    }
    require(field == at + 4 + number(file, at + 2, 2), "a ZIP64 field of another length");
  }
  return given;
}

std::string inflated(std::string_view stored, std::uint64_t size) {
  std::string content(size, '\0');
  z_stream stream{};
  require(inflateInit2(&stream, -15) == Z_OK, "inflateInit2");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data()));
  stream.avail_in = static_cast<uInt>(stored.size());
  stream.next_out = reinterpret_cast<Bytef*>(content.data());
  stream.avail_out = static_cast<uInt>(size);
  const int result = inflate(&stream, Z_FINISH);
  const bool whole = stream.avail_in == 0 && stream.avail_out == 0;
  inflateEnd(&stream);
  require(result == Z_STREAM_END && whole, "a deflated member that does not end where it says");
  return content;
}

ZipEntry read_entry(std::string_view file, std::uint64_t at) {
  require(number(file, at, 4) == 0x02014b50, "no directory entry");
  const std::uint64_t name_size = number(file, at + 28, 2);
  const std::uint64_t extra_size = number(file, at + 30, 2);
  ZipEntry entry;
  entry.name = file.substr(at + 46, name_size);
  entry.deflated = number(file, at + 10, 2) == 8;
  entry.date_time = static_cast<std::uint32_t>(number(file, at + 12, 4));
  const Extents central =
      extents(file, at + 46 + name_size, extra_size,
              {number(file, at + 24, 4), number(file, at + 20, 4), number(file, at + 42, 4)});
  entry.stored_size = central.stored;
  entry.offset = central.offset;
  const std::uint64_t local = central.offset;
  require(number(file, local, 4) == 0x04034b50, "no local header");
  for (const std::uint64_t field : {6U, 8U, 10U, 12U}) {  // from the flags to the date
    require(number(file, local + field, 2) == number(file, at + field + 2, 2), "headers differ");
  }
  require(number(file, local + 14, 4) == number(file, at + 16, 4), "checksums differ");
  require(number(file, local + 26, 2) == name_size && file.substr(local + 30, name_size) == entry.name,
          "names differ");
  const std::uint64_t local_extra = number(file, local + 28, 2);
  const Extents own = extents(file, local + 30 + name_size, local_extra,
                              {number(file, local + 22, 4), number(file, local + 18, 4), 0});
  require(own.size == central.size && own.stored == central.stored, "sizes differ");
  const std::string_view stored = file.substr(local + 30 + name_size + local_extra, central.stored);
  require(stored.size() == central.stored, "a member past the end");
  entry.content = entry.deflated ? inflated(stored, central.size) : std::string(stored);
  require(entry.content.size() == central.size, "a member of another size");
  const auto* bytes = reinterpret_cast<const Bytef*>(entry.content.data());
  require(crc32_z(0, bytes, entry.content.size()) == number(file, at + 16, 4), "a wrong checksum");
  return entry;
}

}  // namespace

std::vector<ZipEntry> read_zip(std::string_view file) {
  require(file.size() >= 22, "too short");
  const std::uint64_t end = file.size() - 22;
  require(number(file, end, 4) == 0x06054b50, "no end record");
  std::uint64_t count = number(file, end + 10, 2);
  std::uint64_t size = number(file, end + 12, 4);
  std::uint64_t at = number(file, end + 16, 4);
  if (count == 0xFFFF || size == 0xFFFFFFFF || at == 0xFFFFFFFF) {
    require(end >= 76 && number(file, end - 20, 4) == 0x07064b50, "no ZIP64 locator");
    const std::uint64_t record = number(file, end - 12, 8);
    require(number(file, record, 4) == 0x06064b50, "no ZIP64 end record");
    count = number(file, record + 32, 8);
    size = number(file, record + 40, 8);
    at = number(file, record + 48, 8);
  }
  const std::uint64_t begin = at;
  std::vector<ZipEntry> entries;
  for (std::uint64_t i = 0; i < count; ++i) {
    entries.push_back(read_entry(file, at));
    at += 46 + number(file, at + 28, 2) + number(file, at + 30, 2) + number(file, at + 32, 2);
  }
  require(at == begin + size, "a central directory that does not end where its end record begins");
  return entries;
}

NpyFile read_npy(std::string_view content) {
  require(content.starts_with(std::string_view("\x93NUMPY\x01\x00", 8)), "no NPY of format 1.0");
  const std::uint64_t length = number(content, 8, 2);
  require((10 + length) % 64 == 0, "an NPY header that is not padded to 64 bytes");
  std::string header(content.substr(10, length));
  require(header.ends_with('\n'), "an NPY header without its line end");
  header.erase(header.find_last_not_of(" \n") + 1);
  return {header, std::string(content.substr(10 + length))};
}

}  // namespace attnctl::test

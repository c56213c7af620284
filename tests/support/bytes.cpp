#include "support/bytes.hpp"

#include <memory>
#include <stdexcept>

#include <zlib.h>
#include <zstd.h>

namespace attnctl::test {
namespace {

std::string deflated(const std::string& data, int window = -MAX_WBITS) {
  z_stream stream = {};
  if (deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2 failed");
  }
  std::string out(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("deflate failed");
  return out;
}

std::uint32_t crc_of(const std::string& data) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
}

/// The fields that both headers of a member share, from the flags to the sizes.
struct Common {
  std::uint32_t flags = 0;
  std::uint32_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;

  [[nodiscard]] std::string text(bool zip64) const {
    const std::uint64_t in_extra = 0xFFFFFFFF;
    return little_endian(flags, 2) + little_endian(method, 2) + little_endian(0, 2) + little_endian(0x21, 2) +
           little_endian(crc, 4) + little_endian(zip64 ? in_extra : packed, 4) +
           little_endian(zip64 ? in_extra : size, 4);
  }
  [[nodiscard]] std::string extra(bool zip64) const {
    if (!zip64) return {};
    // First a time, as Info-ZIP writes.
    return "UT" + little_endian(5, 2) + std::string(5, '\0') + little_endian(1, 2) + little_endian(16, 2) +
           little_endian(size, 8) + little_endian(packed, 8);
  }
};

}  // namespace

std::string gzip(const std::string& text) {
  return deflated(text, 16 + MAX_WBITS);
}

std::string zstd(const std::string& text) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress2(context.get(), out.data(), out.size(), text.data(), text.size());
  if (ZSTD_isError(size) != 0) throw std::runtime_error("ZSTD_compress2 failed");
  out.resize(size);
  return out;
}

std::string little_endian(std::uint64_t value, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    bytes += static_cast<char>(value & 0xFF);
    value >>= 8U;  // one byte at a time: a shift by 64 bits is undefined
  }
  return bytes;
}

std::string safetensors(std::string_view header, std::string_view data) {
  return little_endian(header.size(), 8) + std::string(header) + std::string(data);
}

std::string npy(std::string_view dictionary, std::string_view data, int version) {
  return "\x93NUMPY" + little_endian(static_cast<std::uint64_t>(version), 1) + little_endian(0, 1) +
         little_endian(dictionary.size() + 1, version == 1 ? 2 : 4) + std::string(dictionary) + "\n" +
         std::string(data);
}

std::string zip(const std::vector<ZipPart>& parts, bool zip64_end) {
  std::string file;
  std::string directory;
  for (const ZipPart& part : parts) {
    const std::string packed = part.deflated ? deflated(part.data) : part.data;
    Common common;
    common.flags = part.flags | (part.sizes_follow ? 8U : 0U);
    common.method = part.method.value_or(part.deflated ? 8 : 0);
    common.crc = part.crc.value_or(crc_of(part.data));
    common.packed = packed.size();
    common.size = part.size.value_or(part.data.size());
    const std::size_t offset = file.size();
    const std::string local_name = part.local_name.value_or(part.name);
    Common local = common;
    local.size = part.local_size.value_or(common.size);
    if (part.sizes_follow) local.crc = 0, local.packed = 0, local.size = 0;
    const std::string local_extra = local.extra(part.zip64);
    file += "PK\x03\x04" + little_endian(20, 2) + local.text(part.zip64) +
            little_endian(local_name.size(), 2) + little_endian(local_extra.size(), 2) + local_name +
            local_extra + packed;
    if (part.sizes_follow) {
      file += "PK\x07\x08" + little_endian(common.crc, 4) + little_endian(common.packed, 4) +
              little_endian(common.size, 4);
    }
    const std::string extra = common.extra(part.zip64);
    directory += "PK\x01\x02" + little_endian(20, 2) + little_endian(20, 2) + common.text(part.zip64) +
                 little_endian(part.name.size(), 2) + little_endian(extra.size(), 2) + std::string(10, '\0') +
                 little_endian(part.local_offset.value_or(offset), 4) + part.name + extra;
  }
  const std::size_t begin = file.size();
  file += directory;
  if (zip64_end) {
    const std::size_t record = file.size();
    file += "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) +
            little_endian(0, 8) + little_endian(parts.size(), 8) + little_endian(parts.size(), 8) +
            little_endian(directory.size(), 8) + little_endian(begin, 8);
    file += "PK\x06\x07" + little_endian(0, 4) + little_endian(record, 8) + little_endian(1, 4);
  }
  const std::uint64_t count = zip64_end ? 0xFFFF : parts.size();
  return file + "PK\x05\x06" + little_endian(0, 4) + little_endian(count, 2) + little_endian(count, 2) +
         little_endian(zip64_end ? 0xFFFFFFFF : directory.size(), 4) +
         little_endian(zip64_end ? 0xFFFFFFFF : begin, 4) + little_endian(0, 2);
}

}  // namespace attnctl::test

#include "formats/zip/zip.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <zlib.h>

#include "base/error.hpp"

namespace attnctl {

struct Inflater::State {
  z_stream stream = {};
  std::span<const std::byte> rest;  // not handed to the stream yet
  bool ended = false;
};

Inflater::Inflater(std::string where, std::span<const std::byte> packed)
    : where_(std::move(where)), state_(std::make_unique<State>()) {
  state_->rest = packed;
  if (inflateInit2(&state_->stream, -MAX_WBITS) != Z_OK) fail(Status::limit, "{}: out of memory", where_);
}

Inflater::~Inflater() {
  inflateEnd(&state_->stream);
}

std::size_t Inflater::read(std::span<std::byte> out) {
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  z_stream& stream = state_->stream;
  std::size_t filled = 0;
  while (filled < out.size() && !state_->ended) {
    if (stream.avail_in == 0) {
      const std::size_t count = std::min(kMost, state_->rest.size());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(state_->rest.data()));
      stream.avail_in = static_cast<uInt>(count);
      state_->rest = state_->rest.subspan(count);
    }
    const std::size_t room = std::min(kMost, out.size() - filled);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream, Z_NO_FLUSH);
    filled += room - stream.avail_out;
    if (result == Z_STREAM_END) {
      state_->ended = true;
    } else if (result == Z_MEM_ERROR) {
      fail(Status::limit, "{}: out of memory", where_);
    } else if (result != Z_OK) {
      fail(Status::bad_input, "{}: damaged: got {}, need a deflate stream", where_,
           stream.msg != nullptr ? stream.msg : "its end too early");
    }
  }
  return filled;
}

std::span<const std::byte> unpack(const FileBytes& file, const ZipMember& member,
                                  std::vector<std::byte>& buffer) {
  std::span<const std::byte> bytes = member.data;
  if (member.deflated) {
    buffer.resize(member.size);
    Inflater inflater(at_member(file, member), member.data);
    std::byte more = {};
    const std::size_t got = inflater.read(buffer);
    if (got != member.size || inflater.read({&more, 1}) != 0) {
      fail(Status::bad_input, "{}: damaged: unpacks to {} than the {} bytes that the directory says",
           at_member(file, member), got < member.size ? "less" : "more", member.size);
    }
    bytes = buffer;
  }
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc != member.crc) {
    fail(Status::bad_input, "{}: damaged: got CRC {:08x}, need {:08x}", at_member(file, member), crc,
         member.crc);
  }
  return bytes;
}

}  // namespace attnctl

#include "report/npz/deflate.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include <zlib.h>

#include "report/ordered_chunks.hpp"

namespace attnctl {
namespace {

constexpr std::uint64_t block_size = std::uint64_t{1} << 20U;
constexpr int raw_window_bits = -15;  // raw deflate: a zip member has no zlib header
constexpr int memory_level = 8;

/// Ends a zlib stream in its destructor.
struct DeflateStream {
  z_stream stream{};
  DeflateStream() {
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, raw_window_bits, memory_level,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~DeflateStream() { deflateEnd(&stream); }
  DeflateStream(const DeflateStream&) = delete;
  DeflateStream& operator=(const DeflateStream&) = delete;
};

/// Deflates one block. Only the last block ends the deflate stream.
void deflate_block(std::span<std::byte> input, bool last, std::string& output) {
  DeflateStream deflater;
  z_stream& stream = deflater.stream;
  constexpr std::size_t slack = 64;  // for the empty block at the end of a sync flush
  output.resize(deflateBound(&stream, static_cast<uLong>(input.size())) + slack);
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(output.data());
  stream.avail_out = static_cast<uInt>(output.size());
  const int result = deflate(&stream, last ? Z_FINISH : Z_SYNC_FLUSH);
  if (result != (last ? Z_STREAM_END : Z_OK) || stream.avail_in != 0) {
    throw std::logic_error("zlib did not take a whole block");
  }
  output.resize(stream.total_out);
}

}  // namespace

void deflate_blocks(std::uint64_t size, Pool* pool,
                    const std::function<void(std::uint64_t offset, std::span<std::byte> bytes)>& read,
                    const std::function<void(const std::string& bytes)>& write) {
  const std::uint64_t blocks = std::max<std::uint64_t>((size + block_size - 1) / block_size, 1);
  const auto format = [&](std::size_t block, std::string& output) {
    const std::uint64_t offset = block * block_size;
    std::vector<std::byte> input(std::min(block_size, size - offset));
    read(offset, input);
    deflate_block(input, block + 1 == blocks, output);
  };
  write_in_order(pool, blocks, format, write);
}

}  // namespace attnctl

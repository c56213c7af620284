#include "report/npz.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string_view>
#include <sys/types.h>
#include <system_error>
#include <unistd.h>
#include <unordered_set>
#include <vector>

#include <zlib.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/interrupt.hpp"
#include "base/numbers.hpp"
#include "formats/npy.hpp"
#include "formats/zip.hpp"
#include "report/writers.hpp"

namespace attnctl::report {

/// An unnamed temporary file for data that must be complete before they can be written in order. The file
/// disappears when the process ends, even after a crash. The functions throw Error(environment) on failure,
/// and write_at() and read_at() also throw Error(interrupted).
class Spool {
 public:
  Spool() {
    const char* const chosen = std::getenv("TMPDIR");
    const std::string folder = chosen != nullptr && *chosen != '\0' ? chosen : "/var/tmp";
    name_ = escaped(folder);
    file_ = Descriptor(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file_.number() >= 0) return;
    std::string path = folder + "/attnctl-XXXXXX";  // used if O_TMPFILE fails
    file_ = Descriptor(::mkostemp(path.data(), O_CLOEXEC));
    if (file_.number() < 0) refuse("create");
    ::unlink(path.c_str());
  }

  /// Writes at `offset`. Thread-safe if the ranges do not overlap.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    transfer(offset, bytes, "write", ::pwrite);
  }
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
    transfer(offset, bytes, "read", ::pread);
  }

 private:
  template <typename Byte, typename Call>
  void transfer(std::uint64_t offset, std::span<Byte> bytes, const char* what, Call* call) const {
    while (!bytes.empty()) {
      throw_if_interrupted();
      const ssize_t count = call(file_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count == 0) errno = EIO;  // the file is too short
      if (count <= 0) refuse(what);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
  }
  [[noreturn]] void refuse(const char* what) const {
    fail(Status::environment, "{}: cannot {} a temporary file: {} (set TMPDIR to use another directory)",
         name_, what, std::generic_category().message(errno));
  }

  std::string name_;
  Descriptor file_;
};

namespace {

constexpr std::uint64_t kBlockSize = std::uint64_t{1} << 20U;
constexpr int kRawWindowBits = -15;  // raw deflate, because a zip member has no zlib header
constexpr int kMemoryLevel = 8;

void deflate_block(std::span<std::byte> input, bool last, std::string& output) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRawWindowBits, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, decltype(&deflateEnd)> end(&stream, deflateEnd);
  constexpr std::size_t slack = 64;  // for the empty block that a sync flush appends
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

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie in memory");

// Indexed by Tensor::Values::index().
constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::i64};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::uint32_t joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_size) {
  return static_cast<std::uint32_t>(crc32_combine(first, second, static_cast<z_off_t>(second_size)));
}

}  // namespace

void ScatteredChecksum::add(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  Written piece{bytes.size(), formats::crc32_of(bytes)};
  const std::lock_guard lock(mutex_);
  const auto after = pieces_.upper_bound(offset);
  const auto before = after == pieces_.begin() ? pieces_.end() : std::prev(after);
  const bool is_first = before == pieces_.end();
  const std::uint64_t before_end = is_first ? 0 : before->first + before->second.size;
  if (before_end > offset || (after != pieces_.end() && after->first < offset + piece.size))
    throw std::logic_error("a part of an array is written twice");
  if (!is_first && before_end == offset) {
    offset = before->first;
    piece = {before->second.size + piece.size, joined(before->second.crc, piece.crc, piece.size)};
    pieces_.erase(before);
  }
  if (after != pieces_.end() && after->first == offset + piece.size) {
    piece = {piece.size + after->second.size, joined(piece.crc, after->second.crc, after->second.size)};
    pieces_.erase(after);
  }
  pieces_.emplace(offset, piece);
}

std::optional<std::uint32_t> ScatteredChecksum::value(std::uint64_t size) const {
  const std::lock_guard lock(mutex_);
  if (size == 0 && pieces_.empty()) return formats::crc32_of({});
  if (pieces_.size() != 1) return std::nullopt;
  const auto& [offset, piece] = *pieces_.begin();
  if (offset != 0 || piece.size != size) return std::nullopt;
  return piece.crc;
}

struct NpzWriter::Archive {
  /// A member of the zip file. For a streamed array, also its sink.
  struct Member : ArraySink {
    Archive& archive;
    formats::ZipMember zip;
    std::size_t header_size = 0;
    std::uint64_t place = 0;  // offset of the content in the zip file or in `contents`
    ScatteredChecksum checksum;
    bool hidden_is_minus_infinity = false;

    explicit Member(Archive& owner) : archive(owner) {}
    void write(std::size_t offset, std::span<const float> values) override {
      archive.non_finite += count_non_finite(values, hidden_is_minus_infinity);
      write_content(header_size + std::uint64_t{offset} * sizeof(float), std::as_bytes(values));
    }
    void write_content(std::uint64_t offset, std::span<const std::byte> bytes) {
      if (offset + bytes.size() > zip.size) {
        throw std::logic_error("the array " + zip.name + " is written past its end");
      }
      archive.put_content(place + offset, bytes);
      checksum.add(offset, bytes);
    }
  };

  OutputFile& out;
  NpzOptions options;
  std::optional<Spool> zip_spool;  // the zip file, if the output cannot seek
  std::optional<Spool> contents;   // headers and elements that close() will deflate
  std::vector<std::unique_ptr<Member>> members;
  std::unordered_set<std::string> names;
  std::uint64_t zip_end = 0;
  std::uint64_t contents_end = 0;
  std::atomic<std::uint64_t> non_finite = 0;

  Archive(OutputFile& output, NpzOptions given) : out(output), options(given) {
    if (!out.seekable()) zip_spool.emplace();
    if (options.compress) contents.emplace();
  }

  void put_zip(std::uint64_t offset, std::span<const std::byte> bytes) {
    zip_spool ? zip_spool->write_at(offset, bytes) : out.write_at(offset, bytes);
  }
  void put_content(std::uint64_t offset, std::span<const std::byte> bytes) {
    contents ? contents->write_at(offset, bytes) : put_zip(offset, bytes);
  }

  Member& declare(const std::string& name, DType dtype, const Shape& shape) {
    if (!names.insert(name).second) throw std::logic_error("an NPZ with two arrays named " + name);
    const auto bytes = checked_product(shape, size_of(dtype));
    if (!bytes || *bytes > std::uint64_t{1} << 62U) {
      fail(Status::limit, "{}: the array {} would take more than 4 EiB", out.name(), name);
    }
    const std::string header = formats::npy_header(dtype, shape);
    Member& member = *members.emplace_back(std::make_unique<Member>(*this));
    member.zip.name = name + ".npy";
    member.zip.deflated = options.compress;
    member.zip.size = header.size() + *bytes;
    member.header_size = header.size();
    if (contents) {
      member.place = contents_end;
      contents_end += member.zip.size;
    } else {
      member.zip.stored_size = member.zip.size;
      member.zip.offset = zip_end;
      member.place = zip_end + formats::local_header(member.zip).size();
      zip_end = member.place + member.zip.size;
    }
    member.write_content(0, bytes_of(header));
    return member;
  }

  void fill(Member& member, std::span<const std::byte> elements) const {
    const std::size_t parts = (elements.size() + kBlockSize - 1) / kBlockSize;
    const auto write_part = [&](std::size_t part, std::size_t /*worker*/) {
      const std::size_t offset = part * kBlockSize;
      const std::size_t size = std::min(kBlockSize, elements.size() - offset);
      member.write_content(member.header_size + offset, elements.subspan(offset, size));
    };
    Pool single(1);
    (options.pool != nullptr ? *options.pool : single).run(parts, write_part);
  }

  void store(Member& member) {
    const auto crc = member.checksum.value(member.zip.size);
    if (!crc) throw std::logic_error("the array " + member.zip.name + " is not complete");
    member.zip.crc = *crc;
    if (contents) deflate(member);
    put_zip(member.zip.offset, bytes_of(formats::local_header(member.zip)));
  }

  /// Deflates the content of a member in parallel. The content is divided into blocks of a fixed size, which
  /// are deflated independently and end at a byte boundary. Therefore the output does not depend on the
  /// number of threads.
  void deflate(Member& member) {
    const std::uint64_t size = member.zip.size;
    member.zip.offset = zip_end;
    const std::uint64_t begin = zip_end + formats::local_header(member.zip).size();
    zip_end = begin;
    const std::uint64_t blocks = std::max<std::uint64_t>((size + kBlockSize - 1) / kBlockSize, 1);
    const auto format = [&](std::size_t block, std::string& output) {
      const std::uint64_t offset = block * kBlockSize;
      std::vector<std::byte> input(std::min(kBlockSize, size - offset));
      contents->read_at(member.place + offset, input);
      deflate_block(input, block + 1 == blocks, output);
    };
    write_in_order(options.pool, blocks, format, [&](const std::string& bytes) {
      put_zip(zip_end, bytes_of(bytes));
      zip_end += bytes.size();
    });
    member.zip.stored_size = zip_end - begin;
  }
};

NpzWriter::NpzWriter(OutputFile& out, NpzOptions options)
    : archive_(std::make_unique<Archive>(out, options)) {}

NpzWriter::~NpzWriter() = default;

void NpzWriter::add(const std::string& name, const Tensor& tensor) {
  Archive::Member& member = archive_->declare(name, kDTypes[tensor.values.index()], tensor.shape);
  std::visit([&](const auto& values) { archive_->fill(member, std::as_bytes(values)); }, tensor.values);
  archive_->non_finite += count_non_finite(tensor);
}

ArraySink& NpzWriter::add_streamed(const std::string& name, const Shape& shape,
                                   bool hidden_is_minus_infinity) {
  Archive::Member& member = archive_->declare(name, DType::f32, shape);
  member.hidden_is_minus_infinity = hidden_is_minus_infinity;
  return member;
}

std::uint64_t NpzWriter::non_finite() const {
  return archive_->non_finite;
}

void NpzWriter::close() {
  Archive& archive = *archive_;
  std::vector<formats::ZipMember> members;
  for (const auto& member : archive.members) {
    archive.store(*member);
    members.push_back(member->zip);
  }
  const std::string directory = formats::central_directory(members, archive.zip_end);
  archive.put_zip(archive.zip_end, bytes_of(directory));
  const std::uint64_t size = archive.zip_end + directory.size();
  if (!archive.zip_spool) return archive.out.seek(size);
  std::vector<std::byte> buffer(std::min(kBlockSize, size));
  for (std::uint64_t offset = 0; offset < size; offset += buffer.size()) {
    buffer.resize(std::min(kBlockSize, size - offset));
    archive.zip_spool->read_at(offset, buffer);
    archive.out.write(buffer);
  }
}

}  // namespace attnctl::report

#include "report/npz/npz.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "formats/npy.hpp"
#include "formats/zip/zip_records.hpp"
#include "report/non_finite.hpp"
#include "report/npz/checksum.hpp"
#include "report/npz/deflate.hpp"
#include "report/spool.hpp"

namespace attnctl {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie in memory");

constexpr std::size_t copy_size = std::size_t{1} << 20U;

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::f64;
  } else {
    static_assert(std::is_same_v<T, std::int64_t>);
    return DType::i64;
  }
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

struct NpzWriter::State {
  /// A member of the zip, and the sink through which the caller writes its elements.
  struct Member : ArraySink {
    State& state;
    ZipMember zip;
    std::size_t header_size = 0;
    std::uint64_t place = 0;  // offset of the content in the zip, or in `contents`
    ScatteredChecksum checksum;
    bool hidden_is_minus_infinity = false;

    explicit Member(State& owner) : state(owner) {}
    void write(std::size_t offset, std::span<const float> values) override {
      state.non_finite += count_non_finite(values, hidden_is_minus_infinity);
      write_content(header_size + std::uint64_t{offset} * sizeof(float), std::as_bytes(values));
    }
    void write_content(std::uint64_t offset, std::span<const std::byte> bytes) {
      if (offset + bytes.size() > zip.size) {
        throw std::logic_error("the array " + zip.name + " is written past its end");
      }
      state.put_content(place + offset, bytes);
      checksum.add(offset, bytes);
    }
  };

  OutputFile& out;
  NpzOptions options;
  std::optional<Spool> zip_spool;  // holds the zip if the output cannot seek
  std::optional<Spool> contents;   // holds the elements that close() deflates
  std::vector<std::unique_ptr<Member>> members;
  std::unordered_set<std::string> names;
  std::uint64_t zip_end = 0;
  std::uint64_t contents_end = 0;
  std::atomic<std::uint64_t> non_finite = 0;

  State(OutputFile& output, NpzOptions given) : out(output), options(given) {
    if (!out.seekable()) zip_spool.emplace();
    if (options.compress) contents.emplace();
  }

  void put_zip(std::uint64_t offset, std::span<const std::byte> bytes) {
    zip_spool ? zip_spool->write_at(offset, bytes) : out.write_at(offset, bytes);
  }
  void put_content(std::uint64_t offset, std::span<const std::byte> bytes) {
    contents ? contents->write_at(offset, bytes) : put_zip(offset, bytes);
  }

  Member& declare(const std::string& name, DType dtype, const Shape& shape);
  void fill(Member& member, std::span<const std::byte> elements);
  void store(Member& member);
  void deflate(Member& member);
  void copy_to_output(std::uint64_t size);
};

NpzWriter::State::Member& NpzWriter::State::declare(const std::string& name, DType dtype,
                                                    const Shape& shape) {
  if (!names.insert(name).second) throw std::logic_error("an NPZ with two arrays named " + name);
  const auto elements = checked_product(shape);
  const auto bytes = elements ? checked_mul(*elements, size_of(dtype)) : std::nullopt;
  if (!bytes || *bytes > std::uint64_t{1} << 62U) {
    fail(Status::limit, "{}: the array {} would take more than 4 EiB", out.name(), name);
  }
  const std::string header = npy_header(dtype, shape);
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
    member.place = zip_end + local_header(member.zip).size();
    zip_end = member.place + member.zip.size;
  }
  member.write_content(0, bytes_of(header));
  return member;
}

/// Writes all elements at once. With a pool, workers copy parts and compute their checksums in parallel.
void NpzWriter::State::fill(Member& member, std::span<const std::byte> elements) {
  const std::size_t parts = (elements.size() + copy_size - 1) / copy_size;
  const auto write_part = [&](std::size_t part, std::size_t /*worker*/) {
    const std::size_t offset = part * copy_size;
    const std::size_t size = std::min(copy_size, elements.size() - offset);
    member.write_content(member.header_size + offset, elements.subspan(offset, size));
  };
  if (options.pool != nullptr && parts > 1) return options.pool->run(parts, write_part);
  for (std::size_t part = 0; part < parts; ++part) write_part(part, 0);
}

void NpzWriter::State::store(Member& member) {
  const auto crc = member.checksum.value(member.zip.size);
  if (!crc) throw std::logic_error("the array " + member.zip.name + " is not complete");
  member.zip.crc = *crc;
  if (contents) deflate(member);
  put_zip(member.zip.offset, bytes_of(local_header(member.zip)));
}

void NpzWriter::State::deflate(Member& member) {
  member.zip.offset = zip_end;
  const std::uint64_t begin = zip_end + local_header(member.zip).size();
  zip_end = begin;
  deflate_blocks(
      member.zip.size, options.pool,
      [&](std::uint64_t offset, std::span<std::byte> bytes) {
        contents->read_at(member.place + offset, bytes);
      },
      [&](const std::string& bytes) {
        put_zip(zip_end, bytes_of(bytes));
        zip_end += bytes.size();
      });
  member.zip.stored_size = zip_end - begin;
}

void NpzWriter::State::copy_to_output(std::uint64_t size) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(copy_size, size));
  for (std::uint64_t offset = 0; offset < size;) {
    const std::span<std::byte> part(buffer.data(), std::min<std::uint64_t>(copy_size, size - offset));
    zip_spool->read_at(offset, part);
    out.write(part);
    offset += part.size();
  }
}

NpzWriter::NpzWriter(OutputFile& out, NpzOptions options) : state_(std::make_unique<State>(out, options)) {}

NpzWriter::~NpzWriter() = default;
NpzWriter::NpzWriter(NpzWriter&&) noexcept = default;
NpzWriter& NpzWriter::operator=(NpzWriter&&) noexcept = default;

void NpzWriter::add(const std::string& name, const Array& array) {
  std::visit(
      [&](const auto& values) {
        using T = std::remove_cvref_t<decltype(values[0])>;
        State::Member& member = state_->declare(name, dtype_of<T>(), array.shape);
        state_->fill(member, std::as_bytes(values));
        state_->non_finite += count_non_finite(array);
      },
      array.values);
}

ArraySink& NpzWriter::add_streamed(const std::string& name, const Shape& shape,
                                   bool hidden_is_minus_infinity) {
  State::Member& member = state_->declare(name, DType::f32, shape);
  member.hidden_is_minus_infinity = hidden_is_minus_infinity;
  return member;
}

std::uint64_t NpzWriter::non_finite() const {
  return state_->non_finite;
}

void NpzWriter::close() {
  State& state = *state_;
  std::vector<ZipMember> members;
  for (const auto& member : state.members) {
    state.store(*member);
    members.push_back(member->zip);
  }
  const std::string directory = central_directory(members, state.zip_end);
  state.put_zip(state.zip_end, bytes_of(directory));
  const std::uint64_t size = state.zip_end + directory.size();
  if (state.zip_spool) {
    state.copy_to_output(size);
  } else {
    state.out.seek(size);
  }
}

}  // namespace attnctl

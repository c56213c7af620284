#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/files/output_file.hpp"
#include "base/pool.hpp"
#include "results/results.hpp"

namespace attnctl::report {

struct NpzOptions {
  bool compress = false;  // deflate the members; otherwise they are stored
  Pool* pool = nullptr;   // if not null, writes and deflates in parallel; the output is the same
};

/// Writes an NPZ file for numpy.load: a zip archive of .npy arrays (format 1.0, little-endian, row-major,
/// header padded to a multiple of 64 bytes as in NumPy). All dates are 1980-01-01, so that equal arrays give
/// equal files. ZIP64 is used only if a size, an offset or the number of arrays may require it.
///
/// Arrays are stored in the order in which they are added. Arrays of add_streamed() are not kept in memory:
/// their elements may be written in any order and from several threads, until close() is called. Compression,
/// and outputs that cannot seek, use an unnamed temporary file in $TMPDIR (default: /var/tmp), which
/// disappears even after a crash.
class NpzWriter final : public ArrayOutput {
 public:
  explicit NpzWriter(OutputFile& out, NpzOptions options = {});
  ~NpzWriter() override;

  /// Adds a tensor; `name` is without ".npy". Must not be called from a task of options.pool.
  void add(const std::string& name, const Tensor& tensor) override;

  /// Adds a float32 array that is written through the returned sink, which is valid as long as this writer.
  /// ArraySink::write() throws std::logic_error for an element written twice or past the end.
  ArraySink& add_streamed(const std::string& name, const Shape& shape,
                          bool hidden_is_minus_infinity = false) override;

  /// Returns the number of values written so far that count_non_finite() counts. They are written unchanged.
  [[nodiscard]] std::uint64_t non_finite() const;

  /// Completes the file; no array may be added or written afterwards. Throws std::logic_error if an element
  /// of a streamed array was not written. Does not commit the output.
  void close();

 private:
  struct Archive;
  std::unique_ptr<Archive> archive_;
};

/// Computes the CRC-32 of a file whose pieces are written in any order. Adjacent pieces are joined, so the
/// memory depends only on the number of gaps between pieces. Thread-safe.
class ScatteredChecksum {
 public:
  /// Throws std::logic_error if the bytes at `offset` overlap bytes that were added before.
  void add(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Returns the checksum if the bytes 0 to size - 1, and no others, were added; otherwise nullopt.
  [[nodiscard]] std::optional<std::uint32_t> value(std::uint64_t size) const;

 private:
  struct Written {
    std::uint64_t size;
    std::uint32_t crc;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Written> pieces_;  // key: offset of the piece in the file
};

}  // namespace attnctl::report

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

namespace attnctl {

struct NpzOptions {
  bool compress = false;  // deflate the members; otherwise they are stored
  Pool* pool = nullptr;   // writes and deflates in parallel if set; the output does not depend on it
};

/// Writes an NPZ file that numpy.load reads: a zip of .npy arrays (format 1.0, little-endian, C order, header
/// padded to 64 bytes as in NumPy). Dates are fixed (1980-01-01), so equal arrays give equal bytes. ZIP64 is
/// used if a size, an offset or the number of arrays needs it.
///
/// Arrays are stored in the order of their declaration. Streamed arrays are filled in any order and from
/// several threads until close(), and are not kept in memory. Compression, and outputs that cannot seek, use
/// an unnamed temporary file (in $TMPDIR, by default /var/tmp), which disappears even after a crash.
class NpzWriter final : public ArrayOutput {
 public:
  explicit NpzWriter(OutputFile& out, NpzOptions options = {});
  ~NpzWriter() override;

  /// Adds a whole tensor under a name ("pattern_0", without .npy). Must not be called from a task of the
  /// pool.
  void add(const std::string& name, const Tensor& tensor) override;

  /// Declares a float32 array that is written in parts. The sink is valid as long as this writer.
  ArraySink& add_streamed(const std::string& name, const Shape& shape,
                          bool hidden_is_minus_infinity = false) override;

  /// Returns the number of NaN and infinite values so far (count_non_finite). They are written unchanged.
  [[nodiscard]] std::uint64_t non_finite() const;

  /// Writes the zip directory. Throws std::logic_error if an element of a streamed array was not written, or
  /// was written twice. The caller commits the output.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The CRC-32 of a file whose pieces are written in any order. Adjacent pieces are joined, so the memory
/// grows only with the number of gaps. Thread-safe.
class ScatteredChecksum {
 public:
  /// Adds the bytes at `offset`. Throws std::logic_error if a piece overlaps another one.
  void add(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Returns the checksum if exactly the bytes 0 to size - 1 were added, otherwise nullopt.
  [[nodiscard]] std::optional<std::uint32_t> value(std::uint64_t size) const;

 private:
  struct Piece {
    std::uint64_t size;
    std::uint32_t crc;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Piece> pieces_;  // by offset; adjacent pieces are joined
};

}  // namespace attnctl

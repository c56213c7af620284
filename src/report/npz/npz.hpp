#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/files/output_file.hpp"
#include "base/pool.hpp"
#include "results/result.hpp"

namespace attnctl {

struct NpzOptions {
  bool compress = false;  // deflate; otherwise stored
  Pool* pool = nullptr;   // writes and deflates in parallel where given; the bytes are the same
};

/// Writes an NPZ, a zip of .npy arrays (format 1.0, little-endian, C order, the header padded to 64 bytes as
/// NumPy pads it) that numpy.load reads. Dates are fixed (1980-01-01), so the same arrays give the same
/// bytes. ZIP64 is used where a size, an offset or the number of arrays asks for it.
///
/// Arrays stand in the order of their declaration. Streamed ones are filled in any order and from several
/// threads, until close(); nothing of them is kept in memory. An output that cannot seek, and compression, go
/// through a temporary file without a name (in $TMPDIR, else /var/tmp), which no crash leaves behind.
class NpzWriter {
 public:
  explicit NpzWriter(OutputFile& out, NpzOptions options = {});
  ~NpzWriter();
  NpzWriter(NpzWriter&&) noexcept;
  NpzWriter& operator=(NpzWriter&&) noexcept;

  /// Adds a whole array under a name ("pattern_0", without .npy): float32, float64 or int64 as it is. Not to
  /// be called from within a task of the pool.
  void add(const std::string& name, const Array& array);

  /// Declares a float32 array that is written piece by piece. The sink lives as long as this writer.
  ArraySink& add_streamed(const std::string& name, const Shape& shape, bool hidden_is_minus_infinity = false);

  /// Number of values so far that are NaN or infinite (count_non_finite); they are written as they are.
  [[nodiscard]] std::uint64_t non_finite() const;

  /// Writes the zip's directory. Throws std::logic_error where an element of a streamed array is missing or
  /// was written twice. The caller commits the output.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attnctl

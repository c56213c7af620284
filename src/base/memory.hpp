#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>

#include "base/matrix_view.hpp"
#include "base/numbers.hpp"

namespace attnctl {

/// Allocates `count` uninitialised floats, aligned to a cache line. From 4 MiB on, requests huge pages to
/// reduce page faults. Throws std::bad_alloc if there is not enough memory.
[[nodiscard]] std::shared_ptr<float> fresh_floats(std::size_t count);

/// Returns whether a message of dlerror() means that the dynamic linker could not allocate memory.
[[nodiscard]] bool means_no_memory(std::string_view message);

/// A buffer of floats, aligned to a cache line, that kernels reuse. The buffer can grow, but it never
/// shrinks. Its floats are not initialised.
class AlignedWorkspace {
 public:
  /// Returns the buffer with at least `size` floats. If the buffer must grow, its old contents are lost.
  [[nodiscard]] float* take(std::size_t size) {
    if (size > size_) {
      values_.reset();                              // frees the old buffer before the new one is allocated
      size_ = 0;                                    // remains if the allocation fails
      values_.reset(new (kAlignment) float[size]);  // NOLINT(cppcoreguidelines-owning-memory): owned
      size_ = size;
    }
    return values_.get();
  }
  /// Returns a matrix [rows, cols] in the buffer. Earlier views become invalid if the buffer grows.
  [[nodiscard]] MatrixView<float> take(std::size_t rows, std::size_t cols) {
    const auto size = checked_mul(rows, cols);
    if (!size) throw std::bad_alloc();
    return {take(*size), rows, cols};
  }
  [[nodiscard]] float* get() const { return values_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct AlignedFree {
    void operator()(float* values) const { ::operator delete[](values, kAlignment); }
  };
  std::unique_ptr<float[], AlignedFree> values_;
  std::size_t size_ = 0;
};

/// Resident bytes of this process, including mapped files.
struct MemoryUse {
  std::uint64_t now = 0;
  std::uint64_t peak = 0;  // since the process started, or since reset_peak_memory()
};

[[nodiscard]] MemoryUse memory_use();  // zeros if the system does not report it

/// Resets the peak to the current resident memory. If the system does not support this (Linux before 4.0, or
/// no /proc), the peak remains that of the whole process.
void reset_peak_memory();

/// With glibc, returns freed memory to the system. Blocks of 256 KiB or more that are allocated after this
/// call are returned to the system as soon as they are freed. Does nothing with another C library.
void give_back_freed_memory();

}  // namespace attnctl

#pragma once

#include <cstddef>

#include "base/pool.hpp"

// Measurements of the speed of this machine, for comparison with the speed of a forward pass.
namespace attnctl::linalg {

/// The shape of a product: [m, k] times [k, n].
struct GemmShape {
  std::size_t m = 0, k = 0, n = 0;
};

/// Returns the GFLOP/s of the fastest of `repeat` float32 products by the BLAS after one warm-up; a
/// multiply-add counts as 2. Each worker computes a part of the product (a range of rows or of columns,
/// whichever are more) on one thread, like the forward pass. Throws std::logic_error if m, k or n is 0.
[[nodiscard]] double measure_sgemm(Pool& pool, GemmShape shape, std::size_t repeat);

/// Returns the GB/s (10^9 bytes per second) of the fastest of `repeat` passes after one warm-up. In a pass,
/// all workers together read `bytes` of memory. To measure main memory, `bytes` must be larger than the
/// caches.
[[nodiscard]] double measure_read(Pool& pool, std::size_t bytes, std::size_t repeat);

}  // namespace attnctl::linalg

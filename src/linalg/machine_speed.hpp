#pragma once

#include <cstddef>

#include "base/pool.hpp"

// What the machine can do on the threads of a pool, measured: what a pass is compared with.
namespace attnctl {

/// A product [m, k] [k, n].
struct GemmShape {
  std::size_t m = 0, k = 0, n = 0;
};

/// GFLOP/s (a multiply-add is 2) of the best of `repeat` products in float32 behind one that warms up. The
/// longer of m and n is cut into one slab a worker, each a single-threaded product, as the pass does it.
/// Throws std::logic_error for a shape with a zero extent.
[[nodiscard]] double measure_sgemm(Pool& pool, GemmShape shape, std::size_t repeat);

/// GB/s (10^9 bytes) at which the workers together read `bytes` of memory, each its own part, the best of
/// `repeat` passes behind one that warms up. More bytes than the caches hold measure memory itself.
[[nodiscard]] double measure_read(Pool& pool, std::size_t bytes, std::size_t repeat);

}  // namespace attnctl

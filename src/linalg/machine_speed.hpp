#pragma once

#include <cstddef>

#include "base/pool.hpp"

// Measured speed of the machine on the threads of a pool, to compare a forward pass with.
namespace attnctl {

/// The shape of a product: [m, k] by [k, n].
struct GemmShape {
  std::size_t m = 0, k = 0, n = 0;
};

/// Returns the GFLOP/s (a multiply-add counts as 2) of the fastest of `repeat` float32 products after a
/// warm-up. Cuts the longer of m and n into one single-threaded product per worker, like the forward pass.
/// Throws std::logic_error if an extent is 0.
[[nodiscard]] double measure_sgemm(Pool& pool, GemmShape shape, std::size_t repeat);

/// Returns the GB/s (10^9 bytes) at which all workers together read `bytes` of memory, in the fastest of
/// `repeat` passes after a warm-up. Use more bytes than the caches hold to measure main memory.
[[nodiscard]] double measure_read(Pool& pool, std::size_t bytes, std::size_t repeat);

}  // namespace attnctl

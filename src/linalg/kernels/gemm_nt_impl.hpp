#pragma once

#include "linalg/kernels/gemm_kernels.hpp"
#include "linalg/kernels/gemm_tools.hpp"

namespace attnctl::linalg {
namespace {

/// c = a b^T for few rows: vectors run along k, and registers hold one vector of sums per element of a tile.
template <typename Arch>
struct NtKernel {
  using Batch = xsimd::batch<float, Arch>;
  static constexpr std::size_t kLanes = Batch::size;
  static constexpr bool kManyRegisters = kLanes == 16;  // 32 registers, otherwise 16
  static constexpr std::size_t kMr = kManyRegisters ? 6 : 4;
  static constexpr std::size_t kNr = kManyRegisters ? 4 : 3;
  static constexpr std::size_t kKc = 768;  // a tile of a and of b fits L1
  static constexpr std::size_t kMc = 132;  // these rows of a fit L2

  static constexpr std::size_t padded(std::size_t extent) { return (extent + kLanes - 1) / kLanes * kLanes; }

  struct Tile {
    std::size_t k;
    const float* a;  // [mr, k], rows padded with zeros to whole vectors
    std::size_t a_stride;
    const float* b;
    std::size_t b_stride;
    float* c;
    std::size_t c_stride;
    float alpha;
    bool accumulate;
    Prefetch ahead;
  };

  template <std::size_t R, std::size_t C>
  static void sum_tile(const Tile& t) {
    Batch sums[R][C];
    unroll<R>([&](auto i) { unroll<C>([&](auto j) { sums[i][j] = Batch(0.0F); }); });
    const auto step = [&](const float* b, std::size_t b_stride, std::size_t p)
        __attribute__((always_inline)) {
      Batch right[C];
      unroll<C>([&](auto j) { right[j] = Batch::load_unaligned(b + j * b_stride); });
      unroll<R>([&](auto i) {
        const Batch left = Batch::load_unaligned(t.a + i * t.a_stride + p);
        unroll<C>([&](auto j) { sums[i][j] = xsimd::fma(left, right[j], sums[i][j]); });
      });
    };
    std::size_t p = 0;
    for (; p + kLanes <= t.k; p += kLanes) {
      for (std::size_t line = 0; line < t.ahead.count; ++line)
        prefetch(t.ahead.data + line * t.ahead.stride + p);
      step(t.b + p, t.b_stride, p);
    }
    if (p < t.k) {  // must not read beyond the end of a row of b
      alignas(64) float tail[C][kLanes] = {};
      for (std::size_t j = 0; j < C; ++j) {
        for (std::size_t q = p; q < t.k; ++q) tail[j][q - p] = t.b[j * t.b_stride + q];
      }
      step(tail[0], kLanes, p);
    }
    for (std::size_t i = 0; i < R; ++i) {
      alignas(16) float totals[4];
      lane_sums<Arch>(sums[i][0], sums[i][C > 1 ? 1 : 0], sums[i][C > 2 ? 2 : 0], sums[i][C > 3 ? 3 : 0],
                      totals);
      float* const c = t.c + i * t.c_stride;
      for (std::size_t j = 0; j < C; ++j) c[j] = t.alpha * totals[j] + (t.accumulate ? c[j] : 0);
    }
  }

  template <std::size_t C, std::size_t... R>
  static void tile_of(const Tile& t, std::size_t count, std::index_sequence<R...> /*rows*/) {
    ((count == R + 1 ? sum_tile<R + 1, C>(t) : void()), ...);
  }

  /// Computes C columns of c for m rows. Prefetches the columns of b at `next`, unless it is null.
  template <std::size_t C>
  static void column(Tile t, std::size_t m, const float* next) {
    const Tile whole = t;
    const std::size_t tiles = (m + kMr - 1) / kMr;
    for (std::size_t index = 0; index < tiles; ++index) {
      const Slice own(m, index, tiles);
      const Slice asked(C, index, tiles);
      t.a = whole.a + own.first * t.a_stride;
      t.c = whole.c + own.first * t.c_stride;
      t.ahead = {next, t.b_stride, next == nullptr ? 0 : asked.count};
      if (next != nullptr) t.ahead.data += asked.first * t.b_stride;
      tile_of<C>(t, own.count, std::make_index_sequence<kMr>{});
    }
  }

  template <std::size_t... C>
  static void rest(const Tile& t, std::size_t m, std::size_t count, std::index_sequence<C...> /*columns*/) {
    ((count == C + 1 ? column<C + 1>(t, m, nullptr) : void()), ...);
  }

  static void multiply(const Product& p, float* workspace) {
    const std::size_t blocks_of_k = (p.k + kKc - 1) / kKc;
    const std::size_t blocks = (p.m + kMc - 1) / kMc;
    const std::size_t vectors_of_k = p.k / kLanes;
    for (std::size_t block_of_k = 0; block_of_k < blocks_of_k; ++block_of_k) {
      const Slice cut(vectors_of_k, block_of_k, blocks_of_k);
      const std::size_t first = cut.first * kLanes;
      const std::size_t depth = block_of_k + 1 == blocks_of_k ? p.k - first : cut.count * kLanes;
      // One more cache line than the depth: at a power of two all rows would map to the same sets of L1.
      const std::size_t stride = padded(depth) + 16;
      for (std::size_t block = 0; block < blocks; ++block) {
        const Slice own(p.m, block, blocks);
        for (std::size_t i = 0; i < own.count; ++i) {
          const float* const from = p.a + (own.first + i) * p.a_stride + first;
          float* const to = workspace + i * stride;
          for (std::size_t q = 0; q < depth; ++q) to[q] = from[q];
          for (std::size_t q = depth; q < padded(depth); ++q) to[q] = 0;
        }
        std::size_t j = 0;
        Tile t{depth,       workspace,  stride,
               p.b + first, p.b_stride, p.c + own.first * p.c_stride,
               p.c_stride,  p.alpha,    p.accumulate || block_of_k > 0,
               {}};
        for (; j + kNr <= p.n; j += kNr) {
          constexpr std::size_t distance = 2 * kNr;
          const float* const next = j + distance + kNr <= p.n ? t.b + distance * p.b_stride : nullptr;
          column<kNr>(t, own.count, next);
          t.b += kNr * p.b_stride;
          t.c += kNr;
        }
        rest(t, own.count, p.n - j, std::make_index_sequence<kNr - 1>{});
      }
    }
  }

  static_assert(kMc * (kKc + kLanes + 16) <= kGemmWorkspace);
};

}  // namespace
}  // namespace attnctl::linalg

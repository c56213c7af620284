#pragma once

#include "linalg/kernels/gemm_kernels.hpp"
#include "linalg/kernels/gemm_tools.hpp"

namespace attnctl::linalg {
namespace {

/// c = a b^T for one instruction set: vectors run along k, a tile of sums in registers, one of each element.
template <typename Arch>
struct ProductsOfRows {
  using Batch = xsimd::batch<float, Arch>;
  static constexpr std::size_t lanes = Batch::size;
  static constexpr bool many_registers = lanes == 16;  // 32 of them; 16 elsewhere
  static constexpr std::size_t tile_rows = many_registers ? 6 : 4;
  static constexpr std::size_t tile_cols = many_registers ? 4 : 3;
  static constexpr std::size_t depth_at_once = 768;  // rows of a tile and of b stay in L1
  static constexpr std::size_t rows_at_once = 132;   // of a: these stay in L2

  static constexpr std::size_t padded(std::size_t extent) { return (extent + lanes - 1) / lanes * lanes; }

  struct Tile {
    std::size_t k;
    const float* a;  // rows padded by zeros to whole vectors
    std::size_t a_stride;
    const float* b;
    std::size_t b_stride;
    float* c;
    std::size_t c_stride;
    float alpha;
    bool accumulate;
    Ahead ahead;
  };

  template <std::size_t R, std::size_t C>
  static void sum_tile(const Tile& t) {
    Batch sums[R][C];
    each<R>([&](auto i) { each<C>([&](auto j) { sums[i][j] = Batch(0.0F); }); });
    const auto step = [&](const float* b, std::size_t b_stride, std::size_t p)
        __attribute__((always_inline)) {
      Batch right[C];
      each<C>([&](auto j) { right[j] = Batch::load_unaligned(b + j * b_stride); });
      each<R>([&](auto i) {
        const Batch left = Batch::load_unaligned(t.a + i * t.a_stride + p);
        each<C>([&](auto j) { sums[i][j] = xsimd::fma(left, right[j], sums[i][j]); });
      });
    };
    std::size_t p = 0;
    for (; p + lanes <= t.k; p += lanes) {
      for (std::size_t line = 0; line < t.ahead.count; ++line)
        prefetch(t.ahead.data + line * t.ahead.stride + p);
      step(t.b + p, t.b_stride, p);
    }
    if (p < t.k) {  // nothing behind the end of a row of b is read
      alignas(64) float tail[C][lanes] = {};
      for (std::size_t j = 0; j < C; ++j) {
        for (std::size_t q = p; q < t.k; ++q) tail[j][q - p] = t.b[j * t.b_stride + q];
      }
      step(tail[0], lanes, p);
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

  /// Columns [j, j + C) of c for all rows of the block.
  template <std::size_t C>
  static void column(Tile t, std::size_t m, const float* next) {
    const Tile whole = t;
    const std::size_t tiles = (m + tile_rows - 1) / tile_rows;
    for (std::size_t index = 0; index < tiles; ++index) {
      const Part own(m, index, tiles);
      const Part asked(C, index, tiles);
      t.a = whole.a + own.first * t.a_stride;
      t.c = whole.c + own.first * t.c_stride;
      t.ahead = {next, t.b_stride, next == nullptr ? 0 : asked.count};
      if (next != nullptr) t.ahead.data += asked.first * t.b_stride;
      tile_of<C>(t, own.count, std::make_index_sequence<tile_rows>{});
    }
  }

  template <std::size_t... C>
  static void rest(const Tile& t, std::size_t m, std::size_t count, std::index_sequence<C...> /*columns*/) {
    ((count == C + 1 ? column<C + 1>(t, m, nullptr) : void()), ...);
  }

  static void multiply(const Product& p, float* room) {
    const std::size_t chunks = (p.k + depth_at_once - 1) / depth_at_once;
    const std::size_t blocks = (p.m + rows_at_once - 1) / rows_at_once;
    const std::size_t vectors_of_k = p.k / lanes;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      const Part cut(vectors_of_k, chunk, chunks);
      const std::size_t first = cut.first * lanes;
      const std::size_t depth = chunk + 1 == chunks ? p.k - first : cut.count * lanes;
      // A line more than whole vectors: rows at a power of two would all fall into the same places of L1.
      const std::size_t stride = padded(depth) + 16;
      for (std::size_t block = 0; block < blocks; ++block) {
        const Part own(p.m, block, blocks);
        for (std::size_t i = 0; i < own.count; ++i) {
          const float* const from = p.a + (own.first + i) * p.a_stride + first;
          float* const to = room + i * stride;
          for (std::size_t q = 0; q < depth; ++q) to[q] = from[q];
          for (std::size_t q = depth; q < padded(depth); ++q) to[q] = 0;
        }
        std::size_t j = 0;
        Tile t{depth,       room,       stride,
               p.b + first, p.b_stride, p.c + own.first * p.c_stride,
               p.c_stride,  p.alpha,    p.accumulate || chunk > 0,
               {}};
        for (; j + tile_cols <= p.n; j += tile_cols) {
          constexpr std::size_t distance = 2 * tile_cols;
          const float* const next = j + distance + tile_cols <= p.n ? t.b + distance * p.b_stride : nullptr;
          column<tile_cols>(t, own.count, next);
          t.b += tile_cols * p.b_stride;
          t.c += tile_cols;
        }
        rest(t, own.count, p.n - j, std::make_index_sequence<tile_cols - 1>{});
      }
    }
  }

  static_assert(rows_at_once * (depth_at_once + lanes + 16) <= gemm_room);
};

}  // namespace
}  // namespace attnctl::linalg

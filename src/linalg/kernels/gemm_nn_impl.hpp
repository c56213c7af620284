#pragma once

#include "linalg/kernels/gemm_kernels.hpp"
#include "linalg/kernels/gemm_tools.hpp"
#include "linalg/kernels/vector_lanes.hpp"

namespace attnctl::linalg {
namespace {

/// c = a b for few rows: vectors run along n, and registers hold a tile of sums c[mr, nr].
template <typename Arch>
struct NnKernel {
  using Batch = xsimd::batch<float, Arch>;
  static constexpr std::size_t kLanes = Batch::size;
  static constexpr std::size_t kMr = 6;
  static constexpr std::size_t kVectors = kLanes == 16 ? 4 : 2;  // for 32 registers, otherwise for 16
  static constexpr std::size_t kNr = kVectors * kLanes;
  static constexpr std::size_t kNc = 128;  // eight cache lines per row of b
  static constexpr std::size_t kKc = 128;  // deep enough that tiles of c are loaded rarely
  static constexpr std::size_t kBlocksAhead = 1;
  static constexpr std::size_t kPanelKc = 64;

  struct Tile {
    std::size_t k;
    const float* a;
    std::size_t a_stride;
    const float* b;
    std::size_t b_stride;
    float* c;
    std::size_t c_stride;
    float alpha;
    bool accumulate;
    const float* bias = nullptr;  // [nr], added last
  };

  /// Computes R rows and V vectors of a tile; the last vector has `part` columns. Calls step(p) in each step
  /// along k, for prefetching or packing.
  template <std::size_t R, std::size_t V, typename Step>
  static void sum_tile(const Tile& t, Step& step, std::size_t part) {
    Batch sums[R][V];
    unroll<R>([&](auto i) { unroll<V>([&](auto j) { sums[i][j] = Batch(0.0F); }); });
    for (std::size_t p = 0; p < t.k; ++p) {
      Batch right[V];
      unroll<V>([&](auto j) { right[j] = Batch::load_unaligned(t.b + p * t.b_stride + j * kLanes); });
      step(p);
      unroll<R>([&](auto i) {
        const Batch left(t.a[i * t.a_stride + p]);
        unroll<V>([&](auto j) { sums[i][j] = xsimd::fma(left, right[j], sums[i][j]); });
      });
    }
    const Batch alpha(t.alpha);
    unroll<R>([&](auto i) {
      unroll<V>([&](auto j) {
        float* const c = t.c + i * t.c_stride + j * kLanes;
        const bool whole = j + 1 < V || part == kLanes;
        const auto load = [&](const float* from) __attribute__((always_inline)) {
          return whole ? Batch::load_unaligned(from) : Lanes<Arch>::load_part(from, part, 0);
        };
        Batch sum = t.accumulate ? xsimd::fma(alpha, sums[i][j], load(c)) : alpha * sums[i][j];
        if (t.bias != nullptr) sum += load(t.bias + j * kLanes);
        if (whole) {
          sum.store_unaligned(c);
        } else {
          Lanes<Arch>::store_part(sum, c, part);
        }
      });
    });
  }

  template <std::size_t V, typename Step, std::size_t... R>
  static void tile_of(const Tile& t, Step& step, std::size_t count, std::size_t part,
                      std::index_sequence<R...> /*rows, less 1*/) {
    ((count == R + 1 ? sum_tile<R + 1, V>(t, step, part) : void()), ...);
  }

  /// Computes `count` rows and the first `width` columns of a tile. Reads only the vectors of b that hold
  /// them.
  template <typename Step, std::size_t... V>
  static void tile_of(const Tile& t, Step& step, std::size_t count, std::size_t width,
                      std::index_sequence<V...> /*vectors, less 1*/) {
    const std::size_t last = (width - 1) / kLanes;
    ((last == V ? tile_of<V + 1>(t, step, count, width - V * kLanes, std::make_index_sequence<kMr>{})
                : void()),
     ...);
  }

  /// Computes `count` rows and the columns [first, last) of a tile. Uses a buffer if `first` is not 0.
  template <typename Step>
  static void tile_part(Tile t, Step&& step, std::size_t count, std::size_t first, std::size_t last) {
    constexpr std::make_index_sequence<kVectors> widths;
    if (first == 0) return tile_of(t, step, count, last, widths);
    alignas(64) float whole[kMr * kNr];
    float* const c = t.c;
    const std::size_t c_stride = t.c_stride;
    const bool accumulate = t.accumulate;
    t.c = whole;
    t.c_stride = kNr;
    t.accumulate = false;
    tile_of(t, step, count, last, widths);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = first; j < last; ++j) {
        float& to = c[i * c_stride + (j - first)];
        to = whole[i * kNr + j] + (accumulate ? to : 0);
      }
    }
  }

  /// Packs `count` <= nr rows of b [count, depth] as a panel [depth, nr], padded with zeros to a whole
  /// vector.
  static void pack_transposed(const float* b, std::size_t stride, std::size_t depth, std::size_t count,
                              float* to) {
    const std::size_t whole_depth = depth / kLanes * kLanes;
    for (std::size_t j = 0; j < count; j += kLanes) {
      const float* const from = b + j * stride;
      const std::size_t here = count - j < kLanes ? count - j : kLanes;
      for (std::size_t p = 0; p < whole_depth; p += kLanes)
        transpose<Batch>(from + p, stride, here, to + p * kNr + j, kNr);
      for (std::size_t p = whole_depth; p < depth; ++p) {
        for (std::size_t i = 0; i < kLanes; ++i) to[p * kNr + j + i] = i < here ? from[i * stride + p] : 0;
      }
    }
  }

  /// Packs b [depth, count] as panels [depth, nr], the last one padded with zeros to a whole vector.
  static void pack(const float* b, std::size_t stride, std::size_t depth, std::size_t count, float* to) {
    for (std::size_t first = 0; first < count; first += kNr) {
      const std::size_t width = count - first < kNr ? count - first : kNr;
      for (std::size_t p = 0; p < depth; ++p) {
        const float* const from = b + p * stride + first;
        if (width == kNr) {
          unroll<kVectors>(
              [&](auto v) { Batch::load_unaligned(from + v * kLanes).store_aligned(to + v * kLanes); });
        } else {
          std::size_t j = 0;
          for (; j + kLanes <= width; j += kLanes) Batch::load_unaligned(from + j).store_aligned(to + j);
          if (j < width) Lanes<Arch>::load_part(from + j, width - j, 0).store_aligned(to + j);
        }
        to += kNr;
      }
    }
  }

  /// The block b[kc, nc] that is multiplied at once.
  struct Block {
    std::size_t first_inner, depth;
    std::size_t first_col, count;
    const float* next;  // the block of b to prefetch, or null
  };

  static void multiply_block(const Product& p, const Block& block, float* workspace) {
    const std::size_t row_tiles = (p.m + kMr - 1) / kMr;
    const std::size_t col_tiles = (block.count + kNr - 1) / kNr;
    const float* const b = p.b + block.first_inner * p.b_stride + block.first_col;
    // Packs partial tiles, and narrow tiles that would read short pieces of memory.
    const bool packed = block.count % kNr != 0 || (kNr < 64 && row_tiles > 1);
    if (packed) pack(b, p.b_stride, block.depth, block.count, workspace);
    constexpr std::size_t lines = kNc / 16;
    for (std::size_t u = 0; u < col_tiles; ++u) {
      const std::size_t width = block.count - u * kNr < kNr ? block.count - u * kNr : kNr;
      for (std::size_t r = 0; r < row_tiles; ++r) {
        const Slice own(p.m, r, row_tiles);
        const Slice asked(lines, u * row_tiles + r, row_tiles * col_tiles);
        const Prefetch ahead{block.next == nullptr ? nullptr : block.next + asked.first * 16, p.b_stride,
                             block.next == nullptr ? 0 : asked.count};
        const auto ask = [&ahead](std::size_t step) __attribute__((always_inline)) {
          for (std::size_t line = 0; line < ahead.count; ++line)
            prefetch(ahead.data + step * ahead.stride + line * 16);
        };
        tile_part({block.depth, p.a + own.first * p.a_stride + block.first_inner, p.a_stride,
                   packed ? workspace + u * kNr * block.depth : b + u * kNr, packed ? kNr : p.b_stride,
                   p.c + own.first * p.c_stride + block.first_col + u * kNr, p.c_stride, p.alpha,
                   p.accumulate || block.first_inner > 0},
                  ask, own.count, 0, width);
      }
    }
  }

  static void multiply(const Product& p, float* workspace) {
    const std::size_t blocks = (p.n + kNc - 1) / kNc;
    for (std::size_t first = 0; first < p.k; first += kKc) {
      const std::size_t depth = p.k - first < kKc ? p.k - first : kKc;
      for (std::size_t j = 0; j < p.n; j += kNc) {
        const std::size_t count = p.n - j < kNc ? p.n - j : kNc;
        // Prefetches the next block in reading order if it is a whole one.
        const std::size_t ahead = j / kNc + kBlocksAhead;
        const std::size_t row = first + ahead / blocks * kKc;
        const std::size_t col = ahead % blocks * kNc;
        const bool whole = row + kKc <= p.k && col + kNc <= p.n;
        const float* const next = whole ? p.b + row * p.b_stride + col : nullptr;
        multiply_block(p, {first, depth, j, count, next}, workspace);
      }
    }
  }

  static void panels(const Product& p, std::size_t first_col) {
    const std::size_t row_tiles = (p.m + kMr - 1) / kMr;
    const std::size_t last_col = first_col + p.n;
    for (std::size_t first = 0; first < p.k; first += kPanelKc) {
      const std::size_t depth = p.k - first < kPanelKc ? p.k - first : kPanelKc;
      for (std::size_t u = first_col / kNr; u * kNr < last_col; ++u) {
        const std::size_t from = u * kNr < first_col ? first_col - u * kNr : 0;
        const std::size_t to = last_col - u * kNr < kNr ? last_col - u * kNr : kNr;
        for (std::size_t r = 0; r < row_tiles; ++r) {
          const Slice own(p.m, r, row_tiles);
          tile_part(
              {depth, p.a + own.first * p.a_stride + first, p.a_stride, p.b + u * p.b_stride + first * kNr,
               kNr, p.c + own.first * p.c_stride + (u * kNr + from - first_col), p.c_stride, p.alpha,
               p.accumulate || first > 0},
              [](std::size_t /*step*/) {}, own.count, from, to);
        }
      }
    }
  }

  static_assert(kKc * kNc <= kGemmWorkspace);
};

}  // namespace
}  // namespace attnctl::linalg

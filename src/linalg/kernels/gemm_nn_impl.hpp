#pragma once

#include "linalg/kernels/gemm_kernels.hpp"
#include "linalg/kernels/gemm_tools.hpp"
#include "linalg/kernels/vector_lanes.hpp"

namespace attnctl::linalg {
namespace {

/// c = a b for one instruction set: vectors run along n, a tile of sums in registers.
template <typename Arch>
struct ProductsOfColumns {
  using Batch = xsimd::batch<float, Arch>;
  static constexpr std::size_t lanes = Batch::size;
  static constexpr std::size_t rows = 6;
  static constexpr std::size_t vectors = lanes == 16 ? 4 : 2;  // 32 registers; 16 elsewhere
  static constexpr std::size_t cols = vectors * lanes;
  static constexpr std::size_t block_cols = 128;   // columns of b at a time: eight lines of each of its rows
  static constexpr std::size_t block_depth = 128;  // rows of b at a time: tiles of c come and go seldom
  static constexpr std::size_t blocks_ahead = 1;
  static constexpr std::size_t panel_depth = 64;

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
    const float* bias = nullptr;  // [cols], added last
  };

  /// The first V vectors of the columns of a tile, of the last of them `part` columns. What a tile does
  /// beside its sums: `meanwhile(p)` once in each of its steps.
  template <std::size_t R, std::size_t V, typename Meanwhile>
  static void sum_tile(const Tile& t, Meanwhile& meanwhile, std::size_t part) {
    Batch sums[R][V];
    each<R>([&](auto i) { each<V>([&](auto j) { sums[i][j] = Batch(0.0F); }); });
    for (std::size_t p = 0; p < t.k; ++p) {
      Batch right[V];
      each<V>([&](auto j) { right[j] = Batch::load_unaligned(t.b + p * t.b_stride + j * lanes); });
      meanwhile(p);
      each<R>([&](auto i) {
        const Batch left(t.a[i * t.a_stride + p]);
        each<V>([&](auto j) { sums[i][j] = xsimd::fma(left, right[j], sums[i][j]); });
      });
    }
    const Batch alpha(t.alpha);
    each<R>([&](auto i) {
      each<V>([&](auto j) {
        float* const c = t.c + i * t.c_stride + j * lanes;
        const bool whole = j + 1 < V || part == lanes;
        const auto load = [&](const float* from) __attribute__((always_inline)) {
          return whole ? Batch::load_unaligned(from) : Lanes<Arch>::load_part(from, part, 0);
        };
        Batch sum = t.accumulate ? xsimd::fma(alpha, sums[i][j], load(c)) : alpha * sums[i][j];
        if (t.bias != nullptr) sum += load(t.bias + j * lanes);
        if (whole) {
          sum.store_unaligned(c);
        } else {
          Lanes<Arch>::store_part(sum, c, part);
        }
      });
    });
  }

  template <std::size_t V, typename Meanwhile, std::size_t... R>
  static void tile_of(const Tile& t, Meanwhile& meanwhile, std::size_t count, std::size_t part,
                      std::index_sequence<R...> /*rows*/) {
    ((count == R + 1 ? sum_tile<R + 1, V>(t, meanwhile, part) : void()), ...);
  }

  /// `count` rows and the first `width` columns of a tile; of b no more is read than the vectors that hold
  /// them.
  template <typename Meanwhile, std::size_t... V>
  static void tile_of(const Tile& t, Meanwhile& meanwhile, std::size_t count, std::size_t width,
                      std::index_sequence<V...> /*vectors, less 1*/) {
    const std::size_t last = (width - 1) / lanes;
    ((last == V ? tile_of<V + 1>(t, meanwhile, count, width - V * lanes, std::make_index_sequence<rows>{})
                : void()),
     ...);
  }

  /// `count` rows of columns [first, last) of a tile: by way of a buffer where they begin inside of it.
  template <typename Meanwhile>
  static void tile_part(Tile t, Meanwhile&& meanwhile, std::size_t count, std::size_t first,
                        std::size_t last) {
    constexpr std::make_index_sequence<vectors> widths;
    if (first == 0) return tile_of(t, meanwhile, count, last, widths);
    alignas(64) float whole[rows * cols];
    float* const c = t.c;
    const std::size_t c_stride = t.c_stride;
    const bool accumulate = t.accumulate;
    t.c = whole;
    t.c_stride = cols;
    t.accumulate = false;
    tile_of(t, meanwhile, count, last, widths);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = first; j < last; ++j) {
        float& to = c[i * c_stride + (j - first)];
        to = whole[i * cols + j] + (accumulate ? to : 0);
      }
    }
  }

  /// `count` rows of b, [count, depth], at most `cols` of them, as a tile [depth, cols]: zeros behind them up
  /// to a whole vector, which is what tiles read.
  static void pack_transposed(const float* b, std::size_t stride, std::size_t depth, std::size_t count,
                              float* to) {
    const std::size_t whole_depth = depth / lanes * lanes;
    for (std::size_t j = 0; j < count; j += lanes) {
      const float* const from = b + j * stride;
      const std::size_t here = count - j < lanes ? count - j : lanes;
      for (std::size_t p = 0; p < whole_depth; p += lanes)
        transpose<Batch>(from + p, stride, here, to + p * cols + j, cols);
      for (std::size_t p = whole_depth; p < depth; ++p) {
        for (std::size_t i = 0; i < lanes; ++i) to[p * cols + j + i] = i < here ? from[i * stride + p] : 0;
      }
    }
  }

  /// Rows [0, depth) of `count` columns of b in tiles side by side, zeros behind them up to a whole vector.
  static void pack(const float* b, std::size_t stride, std::size_t depth, std::size_t count, float* to) {
    for (std::size_t first = 0; first < count; first += cols) {
      const std::size_t width = count - first < cols ? count - first : cols;
      for (std::size_t p = 0; p < depth; ++p) {
        const float* const from = b + p * stride + first;
        if (width == cols) {
          each<vectors>(
              [&](auto v) { Batch::load_unaligned(from + v * lanes).store_aligned(to + v * lanes); });
        } else {
          std::size_t j = 0;
          for (; j + lanes <= width; j += lanes) Batch::load_unaligned(from + j).store_aligned(to + j);
          if (j < width) Lanes<Arch>::load_part(from + j, width - j, 0).store_aligned(to + j);
        }
        to += cols;
      }
    }
  }

  struct Chunk {
    std::size_t first_inner, depth;
    std::size_t first_col, count;
    const float* next;  // what is read after the next chunk; null: nothing
  };

  static void nn_chunk(const Product& p, const Chunk& chunk, float* room) {
    const std::size_t row_tiles = (p.m + rows - 1) / rows;
    const std::size_t col_tiles = (chunk.count + cols - 1) / cols;
    const float* const b = p.b + chunk.first_inner * p.b_stride + chunk.first_col;
    // Where tiles are narrow, so that memory would be read in scraps, or not whole.
    const bool packed = chunk.count % cols != 0 || (cols < 64 && row_tiles > 1);
    if (packed) pack(b, p.b_stride, chunk.depth, chunk.count, room);
    constexpr std::size_t lines = block_cols / 16;
    for (std::size_t u = 0; u < col_tiles; ++u) {
      const std::size_t width = chunk.count - u * cols < cols ? chunk.count - u * cols : cols;
      for (std::size_t r = 0; r < row_tiles; ++r) {
        const Part own(p.m, r, row_tiles);
        const Part asked(lines, u * row_tiles + r, row_tiles * col_tiles);
        const Ahead ahead{chunk.next == nullptr ? nullptr : chunk.next + asked.first * 16, p.b_stride,
                          chunk.next == nullptr ? 0 : asked.count};
        const auto ask = [&ahead](std::size_t step) __attribute__((always_inline)) {
          for (std::size_t line = 0; line < ahead.count; ++line)
            prefetch(ahead.data + step * ahead.stride + line * 16);
        };
        tile_part({chunk.depth, p.a + own.first * p.a_stride + chunk.first_inner, p.a_stride,
                   packed ? room + u * cols * chunk.depth : b + u * cols, packed ? cols : p.b_stride,
                   p.c + own.first * p.c_stride + chunk.first_col + u * cols, p.c_stride, p.alpha,
                   p.accumulate || chunk.first_inner > 0},
                  ask, own.count, 0, width);
      }
    }
  }

  static void multiply(const Product& p, float* room) {
    const std::size_t blocks = (p.n + block_cols - 1) / block_cols;
    for (std::size_t first = 0; first < p.k; first += block_depth) {
      const std::size_t depth = p.k - first < block_depth ? p.k - first : block_depth;
      for (std::size_t j = 0; j < p.n; j += block_cols) {
        const std::size_t count = p.n - j < block_cols ? p.n - j : block_cols;
        // In the order in which blocks are read; none for parts of a block, and none behind the end.
        const std::size_t ahead = j / block_cols + blocks_ahead;
        const std::size_t row = first + ahead / blocks * block_depth;
        const std::size_t col = ahead % blocks * block_cols;
        const bool whole = row + block_depth <= p.k && col + block_cols <= p.n;
        const float* const next = whole ? p.b + row * p.b_stride + col : nullptr;
        nn_chunk(p, {first, depth, j, count, next}, room);
      }
    }
  }

  static void panels(const Product& p, std::size_t first_col) {
    const std::size_t row_tiles = (p.m + rows - 1) / rows;
    const std::size_t last_col = first_col + p.n;
    for (std::size_t first = 0; first < p.k; first += panel_depth) {
      const std::size_t depth = p.k - first < panel_depth ? p.k - first : panel_depth;
      for (std::size_t u = first_col / cols; u * cols < last_col; ++u) {
        const std::size_t from = u * cols < first_col ? first_col - u * cols : 0;
        const std::size_t to = last_col - u * cols < cols ? last_col - u * cols : cols;
        for (std::size_t r = 0; r < row_tiles; ++r) {
          const Part own(p.m, r, row_tiles);
          tile_part(
              {depth, p.a + own.first * p.a_stride + first, p.a_stride, p.b + u * p.b_stride + first * cols,
               cols, p.c + own.first * p.c_stride + (u * cols + from - first_col), p.c_stride, p.alpha,
               p.accumulate || first > 0},
              [](std::size_t /*step*/) {}, own.count, from, to);
        }
      }
    }
  }

  static_assert(block_depth * block_cols <= gemm_room);
};

}  // namespace
}  // namespace attnctl::linalg

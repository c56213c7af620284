#pragma once

#include "linalg/gemm_kernels.hpp"
#include "linalg/gemm_tools.hpp"

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
  };

  /// What a tile does beside its sums: `meanwhile(p)` once in each of its steps.
  template <std::size_t R, typename Meanwhile>
  static void sum_tile(const Tile& t, Meanwhile& meanwhile) {
    Batch sums[R][vectors];
    each<R>([&](auto i) { each<vectors>([&](auto j) { sums[i][j] = Batch(0.0F); }); });
    for (std::size_t p = 0; p < t.k; ++p) {
      Batch right[vectors];
      each<vectors>([&](auto j) { right[j] = Batch::load_unaligned(t.b + p * t.b_stride + j * lanes); });
      meanwhile(p);
      each<R>([&](auto i) {
        const Batch left(t.a[i * t.a_stride + p]);
        each<vectors>([&](auto j) { sums[i][j] = xsimd::fma(left, right[j], sums[i][j]); });
      });
    }
    const Batch alpha(t.alpha);
    each<R>([&](auto i) {
      each<vectors>([&](auto j) {
        float* const c = t.c + i * t.c_stride + j * lanes;
        const Batch sum =
            t.accumulate ? xsimd::fma(alpha, sums[i][j], Batch::load_unaligned(c)) : alpha * sums[i][j];
        sum.store_unaligned(c);
      });
    });
  }

  template <typename Meanwhile, std::size_t... R>
  static void tile_of(const Tile& t, Meanwhile& meanwhile, std::size_t count,
                      std::index_sequence<R...> /*rows*/) {
    ((count == R + 1 ? sum_tile<R + 1>(t, meanwhile) : void()), ...);
  }

  /// `count` rows of columns [first, last) of a tile: all of them, or by way of a buffer.
  template <typename Meanwhile>
  static void tile_part(Tile t, Meanwhile&& meanwhile, std::size_t count, std::size_t first,
                        std::size_t last) {
    if (first == 0 && last == cols) return tile_of(t, meanwhile, count, std::make_index_sequence<rows>{});
    alignas(64) float whole[rows * cols];
    float* const c = t.c;
    const std::size_t c_stride = t.c_stride;
    const bool accumulate = t.accumulate;
    t.c = whole;
    t.c_stride = cols;
    t.accumulate = false;
    tile_of(t, meanwhile, count, std::make_index_sequence<rows>{});
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = first; j < last; ++j) {
        float& to = c[i * c_stride + (j - first)];
        to = whole[i * cols + j] + (accumulate ? to : 0);
      }
    }
  }

  /// Rows [0, depth) of `count` columns of b in tiles side by side, padded by zeros.
  static void pack(const float* b, std::size_t stride, std::size_t depth, std::size_t count, float* to) {
    for (std::size_t first = 0; first < count; first += cols) {
      const std::size_t width = count - first < cols ? count - first : cols;
      for (std::size_t p = 0; p < depth; ++p) {
        const float* const from = b + p * stride + first;
        if (width == cols) {
          each<vectors>(
              [&](auto v) { Batch::load_unaligned(from + v * lanes).store_aligned(to + v * lanes); });
        } else {
          for (std::size_t j = 0; j < cols; ++j) to[j] = j < width ? from[j] : 0;
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

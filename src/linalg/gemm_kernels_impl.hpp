#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include <xsimd/xsimd.hpp>

#include "linalg/gemm_kernels.hpp"
#include "linalg/lane_sums.hpp"

// The kernels of linalg/gemm_kernels.hpp for one instruction set; see linalg/kernels_impl.hpp for why all of
// it is in an unnamed namespace and calls nothing of the standard library.
//
// Registers hold a tile of c while the inner extent is run through (Goto and van de Geijn, "Anatomy of
// high-performance matrix multiplication", 2008); what differs is that b is not laid out anew.

namespace attnctl::linalg {
namespace {

/// f(0), f(1), ... unrolled.
template <typename F, std::size_t... I>
[[gnu::always_inline]] inline void each_of(const F& f, std::index_sequence<I...> /*indices*/) {
  (f(std::integral_constant<std::size_t, I>{}), ...);
}
template <std::size_t N, typename F>
[[gnu::always_inline]] inline void each(const F& f) {
  each_of(f, std::make_index_sequence<N>{});
}

/// Part `index` of `parts` equal parts of an extent.
struct Part {
  std::size_t first, count;
  Part(std::size_t extent, std::size_t index, std::size_t parts)
      : first(extent * index / parts), count(extent * (index + 1) / parts - first) {}
};

/// The cache lines of one row of the next tile that a pass over a tile asks for, each step one of each row.
struct Ahead {
  const float* data = nullptr;
  std::size_t stride = 0;  // between the places asked for in one step
  std::size_t count = 0;
};

[[gnu::always_inline]] inline void prefetch(const float* at) {
  __builtin_prefetch(at, 0, 2);  // into L2: L1 holds the tile at work, and has few fill buffers
}

template <typename Arch>
struct GemmSet {
  using Batch = xsimd::batch<float, Arch>;
  static constexpr std::size_t lanes = Batch::size;
  static constexpr bool many_registers = lanes == 16;  // 32 of them; 16 elsewhere

  // c = a b^T: vectors run along k, a tile of sums, one register each.
  static constexpr std::size_t dot_rows = many_registers ? 6 : 4;
  static constexpr std::size_t dot_cols = many_registers ? 4 : 3;
  static constexpr std::size_t dot_depth = 768;       // rows of a tile and of b stay in L1
  static constexpr std::size_t dot_block_rows = 132;  // of a: these stay in L2
  // c = a b: vectors run along n.
  static constexpr std::size_t rows = 6;
  static constexpr std::size_t vectors = many_registers ? 4 : 2;
  static constexpr std::size_t cols = vectors * lanes;
  static constexpr std::size_t block_cols = 64;   // columns of b at a time: whole lines of its rows
  static constexpr std::size_t block_depth = 32;  // rows of b at a time: few enough pages
  static constexpr std::size_t blocks_ahead = 4;
  static constexpr std::size_t panel_depth = 64;

  static constexpr std::size_t padded(std::size_t extent) { return (extent + lanes - 1) / lanes * lanes; }

  // ---- c = a b^T

  struct DotTile {
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
  static void dot_tile(const DotTile& t) {
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
      alignas(64) float rest[C][lanes] = {};
      for (std::size_t j = 0; j < C; ++j) {
        for (std::size_t q = p; q < t.k; ++q) rest[j][q - p] = t.b[j * t.b_stride + q];
      }
      step(rest[0], lanes, p);
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
  static void dot_rows_of(const DotTile& t, std::size_t count, std::index_sequence<R...> /*rows*/) {
    ((count == R + 1 ? dot_tile<R + 1, C>(t) : void()), ...);
  }

  /// Columns [j, j + C) of c for all rows of the block.
  template <std::size_t C>
  static void dot_column(DotTile t, std::size_t m, const float* next) {
    const DotTile whole = t;
    const std::size_t tiles = (m + dot_rows - 1) / dot_rows;
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      const Part own(m, tile, tiles);
      const Part asked(C, tile, tiles);
      t.a = whole.a + own.first * t.a_stride;
      t.c = whole.c + own.first * t.c_stride;
      t.ahead = {next, t.b_stride, next == nullptr ? 0 : asked.count};
      if (next != nullptr) t.ahead.data += asked.first * t.b_stride;
      dot_rows_of<C>(t, own.count, std::make_index_sequence<dot_rows>{});
    }
  }

  template <std::size_t... C>
  static void dot_rest(const DotTile& t, std::size_t m, std::size_t count,
                       std::index_sequence<C...> /*columns*/) {
    ((count == C + 1 ? dot_column<C + 1>(t, m, nullptr) : void()), ...);
  }

  static void nt(const Product& p, float* room) {
    const std::size_t chunks = (p.k + dot_depth - 1) / dot_depth;
    const std::size_t blocks = (p.m + dot_block_rows - 1) / dot_block_rows;
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
        DotTile t{depth,       room,       stride,
                  p.b + first, p.b_stride, p.c + own.first * p.c_stride,
                  p.c_stride,  p.alpha,    p.accumulate || chunk > 0,
                  {}};
        for (; j + dot_cols <= p.n; j += dot_cols) {
          constexpr std::size_t distance = 2 * dot_cols;
          const float* const next = j + distance + dot_cols <= p.n ? t.b + distance * p.b_stride : nullptr;
          dot_column<dot_cols>(t, own.count, next);
          t.b += dot_cols * p.b_stride;
          t.c += dot_cols;
        }
        dot_rest(t, own.count, p.n - j, std::make_index_sequence<dot_cols - 1>{});
      }
    }
  }

  // ---- c = a b

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
    Ahead ahead;  // its stride is between steps, a line for each count
  };

  template <std::size_t R>
  static void tile(const Tile& t) {
    Batch sums[R][vectors];
    each<R>([&](auto i) { each<vectors>([&](auto j) { sums[i][j] = Batch(0.0F); }); });
    for (std::size_t p = 0; p < t.k; ++p) {
      Batch right[vectors];
      each<vectors>([&](auto j) { right[j] = Batch::load_unaligned(t.b + p * t.b_stride + j * lanes); });
      for (std::size_t line = 0; line < t.ahead.count; ++line)
        prefetch(t.ahead.data + p * t.ahead.stride + line * 16);
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

  template <std::size_t... R>
  static void tile_of(const Tile& t, std::size_t count, std::index_sequence<R...> /*rows*/) {
    ((count == R + 1 ? tile<R + 1>(t) : void()), ...);
  }

  /// `count` rows of columns [first, last) of a tile: all of them, or by way of a buffer.
  static void tile_part(Tile t, std::size_t count, std::size_t first, std::size_t last) {
    if (first == 0 && last == cols) return tile_of(t, count, std::make_index_sequence<rows>{});
    alignas(64) float whole[rows * cols];
    float* const c = t.c;
    const std::size_t c_stride = t.c_stride;
    const bool accumulate = t.accumulate;
    t.c = whole;
    t.c_stride = cols;
    t.accumulate = false;
    tile_of(t, count, std::make_index_sequence<rows>{});
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
    // Where a line of b is read in several tiles, or a tile is not whole.
    const bool packed = chunk.count % cols != 0 || (block_cols > cols && row_tiles > 1);
    if (packed) pack(b, p.b_stride, chunk.depth, chunk.count, room);
    constexpr std::size_t lines = block_cols / 16;
    for (std::size_t u = 0; u < col_tiles; ++u) {
      const std::size_t width = chunk.count - u * cols < cols ? chunk.count - u * cols : cols;
      for (std::size_t r = 0; r < row_tiles; ++r) {
        const Part own(p.m, r, row_tiles);
        const Part asked(lines, u * row_tiles + r, row_tiles * col_tiles);
        const Ahead ahead{chunk.next == nullptr ? nullptr : chunk.next + asked.first * 16, p.b_stride,
                          chunk.next == nullptr ? 0 : asked.count};
        tile_part({chunk.depth, p.a + own.first * p.a_stride + chunk.first_inner, p.a_stride,
                   packed ? room + u * cols * chunk.depth : b + u * cols, packed ? cols : p.b_stride,
                   p.c + own.first * p.c_stride + chunk.first_col + u * cols, p.c_stride, p.alpha,
                   p.accumulate || chunk.first_inner > 0, ahead},
                  own.count, 0, width);
      }
    }
  }

  static void nn(const Product& p, float* room) {
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
          tile_part({depth,
                     p.a + own.first * p.a_stride + first,
                     p.a_stride,
                     p.b + u * p.b_stride + first * cols,
                     cols,
                     p.c + own.first * p.c_stride + (u * cols + from - first_col),
                     p.c_stride,
                     p.alpha,
                     p.accumulate || first > 0,
                     {}},
                    own.count, from, to);
        }
      }
    }
  }

  static constexpr GemmKernels table(std::string_view name, std::size_t nt_rows, std::size_t nn_rows) {
    static_assert(dot_block_rows * (dot_depth + lanes + 16) <= gemm_room);
    static_assert(block_depth * block_cols <= gemm_room);
    return {name, nt, nn, panels, cols, nt_rows, nn_rows};
  }
};

}  // namespace
}  // namespace attnctl::linalg

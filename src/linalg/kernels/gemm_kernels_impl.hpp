#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <xsimd/xsimd.hpp>

#include "linalg/kernels/kernels.hpp"
#include "linalg/kernels/vector_math.hpp"

// The GemmKernels of kernels.hpp for one instruction set. Registers hold a tile of c during the loop over k
// (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008). The tiles have the
// usual names: c[mr, nr], a[mr, kc], b[kc, nr]. The kernels for many rows use the tiles of NnKernel.
// kernels_impl.hpp explains why everything is in an unnamed namespace.

namespace attnctl::linalg {
namespace {

/// A range of [0, extent): number `index` of `parts` consecutive ranges of nearly equal size.
struct Slice {
  std::size_t first, count;
  Slice(std::size_t extent, std::size_t index, std::size_t parts)
      : first(extent * index / parts), count(extent * (index + 1) / parts - first) {}
};

/// Data of a later tile to prefetch while the current tile is computed: `count` cache lines per step.
struct Prefetch {
  const float* data = nullptr;
  std::size_t stride = 0;
  std::size_t count = 0;
};

/// The operands of one tile of c. For NtKernel, the rows of a are padded with zeros to whole vectors.
struct Tile {
  std::size_t k;
  const float* a;  // [mr, k]
  std::size_t a_stride;
  const float* b;
  std::size_t b_stride;
  float* c;
  std::size_t c_stride;
  float alpha;
  bool accumulate;
  const float* bias = nullptr;  // [nr], added after the last step; only for NnKernel
  Prefetch ahead = {};          // only for NtKernel
};

[[gnu::always_inline]] inline void prefetch(const float* at) {
  __builtin_prefetch(at, 0, 2);  // into L2, because L1 holds the current tile and has few fill buffers
  asm volatile("");              // without this, GCC removes calls of functions that only prefetch
}

/// Adds the lanes of each of the vectors a, b, c and d. Stores the four sums to `totals`.
template <typename Arch, typename Batch = xsimd::batch<float, Arch>>
[[gnu::always_inline]] inline void lane_sums(const Batch& a, const Batch& b, const Batch& c, const Batch& d,
                                             float* totals) {
#if defined(__AVX512F__)
  if constexpr (Batch::size == 16) {
    // Adds the halves of each vector, then the halves of the results, so that each vector fills a quarter.
    const auto halves = [](__m512 x, __m512 y) {
      return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xEE));
    };
    const __m512 ab = halves(a, b);
    const __m512 cd = halves(c, d);
    __m512 quarters = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    quarters = _mm512_add_ps(quarters, _mm512_shuffle_ps(quarters, quarters, 0x4E));
    quarters = _mm512_add_ps(quarters, _mm512_shuffle_ps(quarters, quarters, 0xB1));
    alignas(64) float lanes[16];
    _mm512_store_ps(lanes, quarters);
    for (std::size_t i = 0; i < 4; ++i) totals[i] = lanes[4 * i];
    return;
  }
#endif
#if defined(__AVX__)
  if constexpr (Batch::size == 8) {
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_store_ps(totals, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
    return;
  }
#endif
  if constexpr (Batch::size < 8) {
    const Batch all[4] = {a, b, c, d};
    for (std::size_t i = 0; i < 4; ++i) {
      alignas(64) float lanes[Batch::size];
      all[i].store_aligned(lanes);
      totals[i] = 0;
      for (const float lane : lanes) totals[i] += lane;
    }
  }
}

/// Transposes `count` rows of `lanes` columns, where `lanes` is the number of lanes of a vector and count <=
/// lanes. The result is [lanes, lanes]; the columns of missing rows are 0. `to` must be aligned to a vector.
template <typename Batch>
[[gnu::always_inline]] inline void transpose(const float* from, std::size_t stride, std::size_t count,
                                             float* to, std::size_t to_stride) {
#if defined(__AVX512F__)
  if constexpr (Batch::size == 16) {
    __m512 rows[16];
    __m512 pairs[16];
    unroll<16>(
        [&](auto i) { rows[i] = i < count ? _mm512_loadu_ps(from + i * stride) : _mm512_setzero_ps(); });
    unroll<8>([&](auto i) {
      pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
      pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    });
    const auto low = [](__m512 x, __m512 y) {
      return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
    };
    const auto high = [](__m512 x, __m512 y) {
      return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
    };
    // After this loop, rows[4 i + q] holds columns q, q + 4, q + 8 and q + 12 of rows 4 i to 4 i + 3.
    unroll<4>([&](auto i) {
      rows[4 * i] = low(pairs[4 * i], pairs[4 * i + 2]);
      rows[4 * i + 1] = high(pairs[4 * i], pairs[4 * i + 2]);
      rows[4 * i + 2] = low(pairs[4 * i + 1], pairs[4 * i + 3]);
      rows[4 * i + 3] = high(pairs[4 * i + 1], pairs[4 * i + 3]);
    });
    constexpr int even = 0x88;  // quarters 0 and 2 of both
    constexpr int odd = 0xDD;
    unroll<4>([&](auto q) {
      const __m512 a = _mm512_shuffle_f32x4(rows[q], rows[4 + q], even);
      const __m512 b = _mm512_shuffle_f32x4(rows[8 + q], rows[12 + q], even);
      const __m512 c = _mm512_shuffle_f32x4(rows[q], rows[4 + q], odd);
      const __m512 d = _mm512_shuffle_f32x4(rows[8 + q], rows[12 + q], odd);
      _mm512_store_ps(to + q * to_stride, _mm512_shuffle_f32x4(a, b, even));
      _mm512_store_ps(to + (q + 4) * to_stride, _mm512_shuffle_f32x4(c, d, even));
      _mm512_store_ps(to + (q + 8) * to_stride, _mm512_shuffle_f32x4(a, b, odd));
      _mm512_store_ps(to + (q + 12) * to_stride, _mm512_shuffle_f32x4(c, d, odd));
    });
    return;
  }
#endif
#if defined(__AVX__)
  if constexpr (Batch::size == 8) {
    __m256 rows[8];
    __m256 fours[8];
    unroll<8>(
        [&](auto i) { rows[i] = i < count ? _mm256_loadu_ps(from + i * stride) : _mm256_setzero_ps(); });
    // After this loop, fours[4 i + q] holds columns q and q + 4 of rows 4 i to 4 i + 3.
    unroll<2>([&](auto i) {
      const __m256 low = _mm256_unpacklo_ps(rows[4 * i], rows[4 * i + 1]);
      const __m256 high = _mm256_unpackhi_ps(rows[4 * i], rows[4 * i + 1]);
      const __m256 next_low = _mm256_unpacklo_ps(rows[4 * i + 2], rows[4 * i + 3]);
      const __m256 next_high = _mm256_unpackhi_ps(rows[4 * i + 2], rows[4 * i + 3]);
      fours[4 * i] = _mm256_shuffle_ps(low, next_low, 0x44);
      fours[4 * i + 1] = _mm256_shuffle_ps(low, next_low, 0xEE);
      fours[4 * i + 2] = _mm256_shuffle_ps(high, next_high, 0x44);
      fours[4 * i + 3] = _mm256_shuffle_ps(high, next_high, 0xEE);
    });
    unroll<4>([&](auto q) {
      _mm256_store_ps(to + q * to_stride, _mm256_permute2f128_ps(fours[q], fours[4 + q], 0x20));
      _mm256_store_ps(to + (q + 4) * to_stride, _mm256_permute2f128_ps(fours[q], fours[4 + q], 0x31));
    });
    return;
  }
#endif
  for (std::size_t i = 0; i < Batch::size; ++i) {
    for (std::size_t j = 0; j < Batch::size; ++j)
      to[j * to_stride + i] = i < count ? from[i * stride + j] : 0;
  }
}

/// Computes c = a b^T for few rows of a. Each element of a tile has a vector of partial sums along k.
template <typename Arch>
struct NtKernel {
  using Batch = xsimd::batch<float, Arch>;
  static constexpr std::size_t kLanes = Batch::size;
  static constexpr bool kManyRegisters = kLanes == 16;  // true: 32 registers; false: 16
  static constexpr std::size_t kMr = kManyRegisters ? 6 : 4;
  static constexpr std::size_t kNr = kManyRegisters ? 4 : 3;
  static constexpr std::size_t kKc = 768;  // a tile of a and a tile of b fit into L1
  static constexpr std::size_t kMc = 132;  // this number of rows of a fits into L2

  static constexpr std::size_t padded(std::size_t extent) { return (extent + kLanes - 1) / kLanes * kLanes; }

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
    if (p < t.k) {  // computed separately, because a load must not read beyond the end of a row of b
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

  /// Computes C columns of c for m rows. Prefetches C later rows of b at `next`, unless `next` is null.
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
      // One cache line longer than the rows: a power of two would put all rows into the same cache sets.
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
               p.c_stride,  p.alpha,    p.accumulate || block_of_k > 0};
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

/// Computes c = a b for few rows of a. Vectors run along n. The registers hold a tile of sums c[mr, nr].
template <typename Arch>
struct NnKernel {
  using Batch = xsimd::batch<float, Arch>;
  static constexpr std::size_t kLanes = Batch::size;
  static constexpr std::size_t kMr = 6;
  static constexpr std::size_t kVectors = kLanes == 16 ? 4 : 2;  // 4 for 32 registers, 2 for 16
  static constexpr std::size_t kNr = kVectors * kLanes;
  static constexpr std::size_t kNc = 128;  // eight cache lines per row of b
  static constexpr std::size_t kKc = 128;  // large enough that tiles of c are rarely loaded
  static constexpr std::size_t kBlocksAhead = 1;
  static constexpr std::size_t kPanelKc = 64;

  /// Computes a tile of R rows and V vectors; the last vector has `part` valid columns. Calls step(p) for
  /// each index p along k; `step` may prefetch or pack other data.
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

  /// Computes `count` rows and the first `width` columns of a tile. Loads only vectors of b that it needs.
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

  /// Packs b^T from `count` rows of b [count, depth], count <= nr, as a panel [depth, nr]. Pads each row of
  /// the panel with zeros to a whole vector.
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

  /// Packs b [depth, count] as panels [depth, nr]. Pads each row of the last panel with zeros to a whole
  /// vector.
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

  /// A part of b, at most [kc, nc], that is multiplied at once.
  struct ProductBlock {
    std::size_t first_inner, depth;
    std::size_t first_col, count;
    const float* next;  // the next part of b to prefetch, or null
  };

  static void multiply_block(const Product& p, const ProductBlock& block, float* workspace) {
    const std::size_t row_tiles = (p.m + kMr - 1) / kMr;
    const std::size_t col_tiles = (block.count + kNr - 1) / kNr;
    const float* const b = p.b + block.first_inner * p.b_stride + block.first_col;
    // Packs the block if its last tile is incomplete, or if its tiles are narrow and used several times.
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
        // Prefetches the next part of b in reading order, if it is a complete block.
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

/// The kernels for many rows: c = a b and c = a b^T. Packs b in panels [kc, nr] that fit into L2, and
/// multiplies all rows of a by each panel. While a panel is multiplied, some steps of the loop also pack a
/// part of the next panel and prefetch the parts to pack after it.
template <typename Arch>
struct PackingKernel {
  using Columns = NnKernel<Arch>;
  using Batch = typename Columns::Batch;
  static constexpr std::size_t kLanes = Columns::kLanes;
  static constexpr std::size_t kNr = Columns::kNr;
  static constexpr std::size_t kKc = 384;

  /// The part of b that becomes one panel. `data` is its first element in b; null after the last panel.
  struct PanelSource {
    const float* data = nullptr;
    std::size_t depth = 0, count = 0;  // number of rows along k, number of columns along n
  };

  /// The position of a panel in b. next() returns the position of the panel that is multiplied next.
  struct Place {
    std::size_t inner = 0, col = 0;

    [[nodiscard]] Place next(const Product& p) const {
      return inner + kKc < p.k ? Place{inner + kKc, col} : Place{0, col + kNr};
    }
  };

  static PanelSource source(const Product& p, bool transposed, Place at) {
    if (at.col >= p.n) return {};
    const float* const data =
        transposed ? p.b + at.col * p.b_stride + at.inner : p.b + at.inner * p.b_stride + at.col;
    return {data, p.k - at.inner < kKc ? p.k - at.inner : kKc, p.n - at.col < kNr ? p.n - at.col : kNr};
  }

  /// Multiplies all rows of a by one panel. In each tile of rows, calls `step` once per index along k.
  template <typename Step>
  static void pass(const Product& p, Place at, const PanelSource& own, const float* panel, Step& step) {
    const std::size_t tiles = row_tiles(p);
    const bool last = at.inner + own.depth == p.k;
    const float* const bias = last && p.bias != nullptr ? p.bias + at.col : nullptr;
    for (std::size_t t = 0; t < tiles; ++t) {
      const Slice rows(p.m, t, tiles);
      Columns::tile_part(
          {own.depth, p.a + rows.first * p.a_stride + at.inner, p.a_stride, panel, kNr,
           p.c + rows.first * p.c_stride + at.col, p.c_stride, p.alpha, p.accumulate || at.inner > 0, bias},
          step, rows.count, 0, own.count);
    }
  }
  static std::size_t row_tiles(const Product& p) { return (p.m + Columns::kMr - 1) / Columns::kMr; }

  /// Distributes `shares` pieces of other work evenly over the steps of a pass. is_due() is called once per
  /// step and returns whether the step does a piece: never if there are fewer steps than pieces.
  struct Turns {
    std::size_t every;
    std::size_t wait = every;

    Turns(std::size_t steps, std::size_t shares) : every(shares > 0 ? steps / shares : 0) {}
    [[gnu::always_inline]] bool is_due() {
      if (--wait > 0) return false;
      wait = every;
      return true;
    }
  };

  /// A panel to pack, and the panel after it, whose beginning is prefetched at the end.
  struct Job {
    PanelSource own, after;
    std::size_t stride;
    float* to;
    std::size_t steps;  // number of steps of the pass during which the panel is packed
  };

  /// Packs a panel of b [k, n] while another one is multiplied, one row per turn. Prefetches later rows.
  struct RowByRow {
    static constexpr bool kTransposed = false;
    static constexpr std::size_t kRowsAhead = 16;

    Job job;
    Turns turns;
    std::size_t row = 0;

    explicit RowByRow(const Job& l) : job(l), turns(l.steps, l.own.count == kNr ? l.own.depth : 0) {}

    [[gnu::always_inline]] void operator()(std::size_t /*step*/) {
      if (turns.is_due() && row < job.own.depth) next();
    }

    [[gnu::always_inline]] void next() {
      const std::size_t ahead = row + kRowsAhead;
      if (ahead < job.own.depth) {
        prefetch_row(job.own.data + ahead * job.stride);
      } else if (ahead - job.own.depth < job.after.depth) {
        prefetch_row(job.after.data + (ahead - job.own.depth) * job.stride);
      }
      const float* const from = job.own.data + row * job.stride;
      float* const to = job.to + row * kNr;
      unroll<Columns::kVectors>(
          [&](auto v) { Batch::load_unaligned(from + v * kLanes).store_aligned(to + v * kLanes); });
      ++row;
    }

    /// Prefetches a row of the panel. A row that is not aligned uses one more cache line.
    [[gnu::always_inline]] static void prefetch_row(const float* from) {
      unroll<kNr / 16>([&](auto i) { prefetch(from + i * 16); });
      prefetch(from + kNr - 1);
    }

    /// Packs the rows that are not packed yet.
    void finish() {
      const PanelSource& own = job.own;
      if (own.count != kNr) return Columns::pack(own.data, job.stride, own.depth, own.count, job.to);
      while (row < own.depth) next();
    }
  };

  /// Packs a panel of b^T from b [n, k] while another panel is multiplied. Each turn packs kPiece values of a
  /// row of b; each value belongs to a different row of the panel.
  struct PieceByPiece {
    static constexpr bool kTransposed = true;
    static constexpr std::size_t kPiece = 16;
    static constexpr std::size_t kRowsAhead = 32;  // counted in rows of b

    Job job;
    Turns turns;
    std::size_t inner = 0, row = 0;

    explicit PieceByPiece(const Job& l)
        : job(l), turns(l.steps, is_whole(l.own) ? l.own.depth / kPiece * kNr : 0) {}

    static bool is_whole(const PanelSource& source) {
      return source.count == kNr && source.depth % kPiece == 0;
    }

    [[gnu::always_inline]] void operator()(std::size_t /*step*/) {
      if (turns.is_due() && inner < job.own.depth) next();
    }

    [[gnu::always_inline]] void next() {
      if (row + kRowsAhead < kNr) {
        prefetch_row(job.own.data + (row + kRowsAhead) * job.stride + inner);
      } else if (inner + kPiece < job.own.depth) {
        prefetch_row(job.own.data + (row + kRowsAhead - kNr) * job.stride + inner + kPiece);
      } else if (row + kRowsAhead - kNr < job.after.count) {
        prefetch_row(job.after.data + (row + kRowsAhead - kNr) * job.stride);
      }
      const float* const from = job.own.data + row * job.stride + inner;
      float* const to = job.to + inner * kNr + row;
      unroll<kPiece>([&](auto i) { to[i * kNr] = from[i]; });
      if (++row < kNr) return;
      row = 0;
      inner += kPiece;
    }

    [[gnu::always_inline]] static void prefetch_row(const float* from) {
      prefetch(from);
      prefetch(from + kPiece - 1);
    }

    void finish() {
      const PanelSource& own = job.own;
      if (inner == 0 && row == 0)
        return Columns::pack_transposed(own.data, job.stride, own.depth, own.count, job.to);
      while (inner < own.depth) next();
    }
  };

  template <typename Packer>
  static void multiply(const Product& p, float* workspace) {
    float* panel = workspace;
    float* other = workspace + kNr * kKc;
    Place at;
    PanelSource own = source(p, Packer::kTransposed, at);
    PanelSource next = source(p, Packer::kTransposed, at.next(p));
    Packer({own, next, p.b_stride, panel, 0}).finish();
    while (own.data != nullptr) {
      const Place following = at.next(p);
      const PanelSource after = source(p, Packer::kTransposed, following.next(p));
      Packer step({next, after, p.b_stride, other, row_tiles(p) * own.depth});
      pass(p, at, own, panel, step);
      step.finish();
      at = following;
      own = next;
      next = after;
      float* const packed = other;
      other = panel;
      panel = packed;
    }
  }
  static void nn(const Product& p, float* workspace) { multiply<RowByRow>(p, workspace); }
  static void nt(const Product& p, float* workspace) { multiply<PieceByPiece>(p, workspace); }

  static_assert(2 * kNr * kKc <= kGemmWorkspace);
};

/// The kernel for an encoded b. It decodes a panel of b, then multiplies all rows of a by this panel. While
/// it multiplies, it prefetches the stored bytes of the next panel.
template <typename Arch>
struct DecodingKernel {
  using Columns = NnKernel<Arch>;
  using Packing = PackingKernel<Arch>;
  static constexpr std::size_t kNr = Columns::kNr;
  static constexpr std::size_t kLanes = Columns::kLanes;
  static constexpr std::size_t kKc = 512;  // a multiple of all block sizes

  /// A part of b: `depth` rows from row `inner` on, `count` columns from column `col` on (of b^T, if b is
  /// transposed).
  struct Part {
    std::size_t inner, col, depth, count;

    Part(const Product& p, std::size_t first_inner, std::size_t first_col)
        : inner(first_inner),
          col(first_col),
          depth(p.k - inner < kKc ? p.k - inner : kKc),
          count(p.n - col < kNr ? p.n - col : kNr) {}
  };

  /// Decodes a part of b to a panel [depth, nr]. `rows` has kLanes * kKc floats of workspace.
  static void decode(const EncodedProduct& e, const Part& part, float* panel, float* rows) {
    if (!e.transposed) {
      for (std::size_t p = 0; p < part.depth; ++p) {
        float* const to = panel + p * kNr;
        e.decode.rows(e.b->row(part.inner + p) + part.col * e.block.bytes, part.count, to);
        for (std::size_t j = part.count; j % kLanes != 0; ++j) to[j] = 0;
      }
      return;
    }
    const std::size_t skipped = part.inner / e.block.values * e.block.bytes;
    const std::size_t blocks = part.depth / e.block.values;
    for (std::size_t j = 0; j < part.count; j += kLanes) {
      const std::size_t here = part.count - j < kLanes ? part.count - j : kLanes;
      const std::byte* from[kLanes];
      for (std::size_t i = 0; i < here; ++i) from[i] = e.b->row(part.col + j + i) + skipped;
      if (e.decode.columns != nullptr && here == kLanes) {
        e.decode.columns(from, blocks, panel + j, kNr);
        continue;
      }
      for (std::size_t i = 0; i < here; ++i) e.decode.rows(from[i], blocks, rows + i * kKc);
      Columns::pack_transposed(rows, kKc, part.depth, here, panel + j);
    }
  }

  /// Prefetches the stored bytes of a part of b, one cache line per turn.
  struct Ahead {
    const EncodedMatrix* b;
    std::size_t first, count, skipped, bytes;  // the stored rows, and the bytes of each
    typename Packing::Turns turns;
    std::size_t row = 0, at = 0;

    Ahead(const EncodedProduct& e, const Part& part, std::size_t steps)
        : b(e.b),
          first(e.transposed ? part.col : part.inner),
          count(e.transposed ? part.count : part.depth),
          skipped((e.transposed ? part.inner : part.col) / e.block.values * e.block.bytes),
          bytes((e.transposed ? part.depth : part.count) / e.block.values * e.block.bytes),
          turns(steps, count * (bytes / kLine + 1)) {}

    [[gnu::always_inline]] void operator()(std::size_t /*step*/) {
      if (turns.is_due() && row < count) next();
    }
    void next() {
      prefetch(reinterpret_cast<const float*>(b->row(first + row) + skipped + at));
      at += kLine;
      if (at <= bytes) return;
      at = 0;
      ++row;
    }
    static constexpr std::size_t kLine = 64;
  };

  static void multiply(const EncodedProduct& e, float* workspace) {
    const Product& p = e.product;
    float* const rows = workspace + kNr * kKc;
    for (std::size_t col = 0; col < p.n; col += kNr) {
      for (std::size_t inner = 0; inner < p.k; inner += kKc) {
        const Part part(p, inner, col);
        decode(e, part, workspace, rows);
        const bool last = inner + part.depth == p.k;
        const Part next(p, last ? 0 : inner + kKc, last && col + kNr < p.n ? col + kNr : col);
        Ahead ahead(e, next, Packing::row_tiles(p) * part.depth);
        Packing::pass(p, {inner, col}, {nullptr, part.depth, part.count}, workspace, ahead);
      }
    }
  }

  static_assert((kNr + kLanes) * kKc <= kGemmWorkspace);
};

/// Returns the kernels of one instruction set.
template <typename Arch>
constexpr GemmKernels gemm_table(std::string_view name, std::size_t nt_rows, std::size_t nn_rows) {
  using Nt = NtKernel<Arch>;
  using Nn = NnKernel<Arch>;
  GemmKernels table{name,
                    Nt::multiply,
                    Nn::multiply,
                    nullptr,
                    nullptr,
                    Nn::panels,
                    Nn::kNr,
                    Nn::pack,
                    Nn::pack_transposed,
                    DecodingKernel<Arch>::multiply,
                    nt_rows,
                    nn_rows};
  if constexpr (Nn::kLanes == 16) {
    table.nt_many = PackingKernel<Arch>::nt;
    table.nn_many = PackingKernel<Arch>::nn;
  }
  return table;
}

}  // namespace
}  // namespace attnctl::linalg

#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <xsimd/xsimd.hpp>

// Helpers of the GEMM kernels. kernels_impl.hpp explains why everything is in an unnamed namespace and calls
// no function of the standard library.

namespace attnctl::linalg {
namespace {

template <typename F, std::size_t... I>
[[gnu::always_inline]] inline void unroll_indices(const F& f, std::index_sequence<I...> /*indices*/) {
  (f(std::integral_constant<std::size_t, I>{}), ...);
}
/// Calls f(0), ..., f(N - 1) with constant arguments, unrolled.
template <std::size_t N, typename F>
[[gnu::always_inline]] inline void unroll(const F& f) {
  unroll_indices(f, std::make_index_sequence<N>{});
}

/// Slice `index` of an extent that is cut into `parts` slices of nearly equal size.
struct Slice {
  std::size_t first, count;
  Slice(std::size_t extent, std::size_t index, std::size_t parts)
      : first(extent * index / parts), count(extent * (index + 1) / parts - first) {}
};

/// The cache lines of the next tile that the steps over a tile prefetch: `count` lines per step.
struct Prefetch {
  const float* data = nullptr;
  std::size_t stride = 0;
  std::size_t count = 0;
};

[[gnu::always_inline]] inline void prefetch(const float* at) {
  __builtin_prefetch(at, 0, 2);  // into L2: L1 holds the current tile and has few fill buffers
  asm volatile("");              // GCC drops calls of functions that only prefetch
}

/// Stores the sum over the lanes of each of four vectors.
template <typename Arch, typename Batch = xsimd::batch<float, Arch>>
[[gnu::always_inline]] inline void lane_sums(const Batch& a, const Batch& b, const Batch& c, const Batch& d,
                                             float* totals) {
#if defined(__AVX512F__)
  if constexpr (Batch::size == 16) {
    // Adds halves of two vectors side by side until each quarter holds one vector.
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

/// Transposes `count` <= lanes rows of `lanes` columns to [lanes, lanes]; missing rows become zeros. `to` is
/// aligned to a vector.
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
    unroll<4>([&](auto i) {  // rows[4 i + q] holds columns q, q + 4, q + 8, q +
                             // 12 of rows 4 i to 4 i + 3
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
  for (std::size_t i = 0; i < Batch::size; ++i) {
    for (std::size_t j = 0; j < Batch::size; ++j)
      to[j * to_stride + i] = i < count ? from[i * stride + j] : 0;
  }
}

}  // namespace
}  // namespace attnctl::linalg

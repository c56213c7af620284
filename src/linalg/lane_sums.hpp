#pragma once

#include <cstddef>

#include <xsimd/xsimd.hpp>

// Of linalg/gemm_kernels_impl.hpp, in an unnamed namespace as all of it.

namespace attnctl::linalg {
namespace {

/// The sums over all lanes of four vectors.
template <typename Arch, typename Batch = xsimd::batch<float, Arch>>
[[gnu::always_inline]] inline void lane_sums(const Batch& a, const Batch& b, const Batch& c, const Batch& d,
                                             float* totals) {
#if defined(__AVX512F__)
  if constexpr (Batch::size == 16) {
    // Halves of two vectors are added side by side, until each quarter is of one vector.
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

}  // namespace
}  // namespace attnctl::linalg

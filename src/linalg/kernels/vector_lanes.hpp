#pragma once

#include <cstddef>
#include <cstdint>

#include <xsimd/xsimd.hpp>

// Operations on vectors that differ between instruction sets: loads and stores of some lanes, sums and maxima
// over all lanes, a b + c, table look-ups, and products with powers of 2. They are in an unnamed namespace
// for the reason given in kernels_impl.hpp.

namespace attnctl::linalg {
namespace {

template <typename Arch>
struct Lanes {
  using Batch = xsimd::batch<float, Arch>;
  static constexpr std::size_t count = Batch::size;
#if defined(__ARM_FEATURE_FMA)
  static constexpr bool fused = true;
#else
  static constexpr bool fused = false;
#endif
  static constexpr bool scales = false;    // true if scale() exists
  static constexpr bool looks_up = false;  // true if look_up() exists

  /// Returns a b + c. The result is rounded once if `fused` is true, otherwise twice.
  static Batch fma(const Batch& a, const Batch& b, const Batch& c) {
    return xsimd::fma(a, b, c);
  }

  /// Loads `n` floats into the first lanes and sets the other lanes to `filler`. Does not read other memory.
  static Batch load_part(const float* at, std::size_t n, float filler) {
    alignas(64) float buffer[count];
    for (std::size_t i = 0; i < count; ++i) buffer[i] = i < n ? at[i] : filler;
    return Batch::load_aligned(buffer);
  }

  static void store_part(const Batch& values, float* at, std::size_t n) {
    alignas(64) float buffer[count];
    values.store_aligned(buffer);
    for (std::size_t i = 0; i < n; ++i) at[i] = buffer[i];
  }

  static double sum(const Batch& values) {
    alignas(64) float buffer[count];
    values.store_aligned(buffer);
    double total = 0;
    for (std::size_t i = 0; i < count; ++i) total += static_cast<double>(buffer[i]);
    return total;
  }

  static float largest(const Batch& values) {
    alignas(64) float buffer[count];
    values.store_aligned(buffer);
    float most = buffer[0];
    for (std::size_t i = 1; i < count; ++i) most = buffer[i] > most ? buffer[i] : most;
    return most;
  }
};

#if defined(__AVX2__)
template <>
struct Lanes<xsimd::fma3<xsimd::avx2>> {
  using Batch = xsimd::batch<float, xsimd::fma3<xsimd::avx2>>;
  static constexpr std::size_t count = 8;
  static constexpr bool fused = true;
  static constexpr bool scales = false;
  static constexpr bool looks_up = true;

  static Batch fma(const Batch& a, const Batch& b, const Batch& c) { return _mm256_fmadd_ps(a, b, c); }
  /// Returns, in each lane, table[index % 8].
  static Batch look_up(const Batch& table,
                       const xsimd::batch<std::int32_t, xsimd::fma3<xsimd::avx2>>& index) {
    return _mm256_permutevar8x32_ps(table, index);
  }

  static __m256i first(std::size_t n) {
    alignas(64) static constexpr std::int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes + count - n));
  }

  static Batch load_part(const float* at, std::size_t n, float filler) {
    const __m256i mask = first(n);
    return _mm256_blendv_ps(_mm256_set1_ps(filler), _mm256_maskload_ps(at, mask), _mm256_castsi256_ps(mask));
  }

  static void store_part(const Batch& values, float* at, std::size_t n) {
    _mm256_maskstore_ps(at, first(n), values);
  }

  static double sum(const Batch& values) {
    const __m256d fours = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(values)),
                                        _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1)));
    const __m128d twos = _mm_add_pd(_mm256_castpd256_pd128(fours), _mm256_extractf128_pd(fours, 1));
    return _mm_cvtsd_f64(_mm_add_sd(twos, _mm_unpackhi_pd(twos, twos)));
  }

  static float largest(const Batch& values) {
    const __m128 fours = _mm_max_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
    const __m128 twos = _mm_max_ps(fours, _mm_movehl_ps(fours, fours));
    return _mm_cvtss_f32(_mm_max_ss(twos, _mm_shuffle_ps(twos, twos, 1)));
  }
};
#endif

#if defined(__AVX512F__) && defined(__AVX512DQ__)
template <>
struct Lanes<xsimd::avx512bw> {
  using Batch = xsimd::batch<float, xsimd::avx512bw>;
  static constexpr std::size_t count = 16;
  static constexpr bool fused = true;
  static constexpr bool scales = true;
  static constexpr bool looks_up = true;

  /// Written with an intrinsic, because xsimd 8 lacks this function for AVX-512.
  static Batch fma(const Batch& a, const Batch& b, const Batch& c) { return _mm512_fmadd_ps(a, b, c); }
  /// Returns, in each lane, table[index % 16].
  static Batch look_up(const Batch& table, const xsimd::batch<std::int32_t, xsimd::avx512bw>& index) {
    return _mm512_permutexvar_ps(index, table);
  }
  /// Returns v 2^n for integers n.
  static Batch scale(const Batch& v, const Batch& n) { return _mm512_scalef_ps(v, n); }

  static __mmask16 first(std::size_t n) { return static_cast<__mmask16>((1U << n) - 1); }

  static Batch load_part(const float* at, std::size_t n, float filler) {
    return _mm512_mask_loadu_ps(_mm512_set1_ps(filler), first(n), at);
  }

  static void store_part(const Batch& values, float* at, std::size_t n) {
    _mm512_mask_storeu_ps(at, first(n), values);
  }

  static double sum(const Batch& values) {
    return _mm512_reduce_add_pd(_mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(values)),
                                              _mm512_cvtps_pd(_mm512_extractf32x8_ps(values, 1))));
  }

  static float largest(const Batch& values) { return _mm512_reduce_max_ps(values); }
};
#endif

}  // namespace
}  // namespace attnctl::linalg

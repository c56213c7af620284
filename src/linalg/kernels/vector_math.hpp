#pragma once

#include <cstddef>
#include <cstdint>

#include <xsimd/xsimd.hpp>

// Functions of vectors of floats. Unless a comment states otherwise, results differ from the exact value by
// at most 2 units in the last place. For subnormal results the unit is the smallest positive float. NaN gives
// NaN.
//
// Sources. Argument reduction: W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980;
// ln 2 is split into two parts. The first has few bits, so that its products with exponents are exact.
// Polynomials: fitted by tests/golden/vector_math.py. Tail of the normal distribution as e^(-a^2 / 2) times a
// rational function, with the square in two parts: W. J. Cody, Rational Chebyshev approximations for the
// error function, Math. Comp. 23, 1969. Exact products and sums: T. J. Dekker, A floating-point technique for
// extending the available precision, Numer. Math. 18, 1971, and D. E. Knuth, The Art of Computer Programming
// 2, 4.2.2. These products and sums need -ffp-contract=off (cmake/simd.cmake).

namespace attnctl::linalg {
namespace {

template <typename F, std::size_t... I>
[[gnu::always_inline]] inline void unroll_indices(const F& f, std::index_sequence<I...> /*indices*/) {
  (f(std::integral_constant<std::size_t, I>{}), ...);
}
/// Calls f(0), ..., f(N - 1). The calls are unrolled, and each argument is a constant.
template <std::size_t N, typename F>
[[gnu::always_inline]] inline void unroll(const F& f) {
  unroll_indices(f, std::make_index_sequence<N>{});
}

/// Operations on vectors that differ between instruction sets: loads and stores of some lanes, sums and
/// maxima over all lanes, a b + c, table look-ups, and products with powers of 2.
template <typename Arch>
struct Lanes {
  using Batch = xsimd::batch<float, Arch>;
#if defined(__ARM_FEATURE_FMA)
  static constexpr bool kFused = true;
#else
  static constexpr bool kFused = false;
#endif

  /// Returns a b + c. The result is rounded once if kFused is true, otherwise twice.
  static Batch fma(const Batch& a, const Batch& b, const Batch& c) {
    return xsimd::fma(a, b, c);
  }

  /// Loads `n` floats into the first lanes and sets the other lanes to `filler`. Does not read other memory.
  static Batch load_part(const float* at, std::size_t n, float filler) {
    alignas(64) float buffer[Batch::size];
    for (std::size_t i = 0; i < Batch::size; ++i) buffer[i] = i < n ? at[i] : filler;
    return Batch::load_aligned(buffer);
  }

  static void store_part(const Batch& values, float* at, std::size_t n) {
    alignas(64) float buffer[Batch::size];
    values.store_aligned(buffer);
    for (std::size_t i = 0; i < n; ++i) at[i] = buffer[i];
  }

  static double sum(const Batch& values) {
    alignas(64) float buffer[Batch::size];
    values.store_aligned(buffer);
    double total = 0;
    for (std::size_t i = 0; i < Batch::size; ++i) total += static_cast<double>(buffer[i]);
    return total;
  }

  static float largest(const Batch& values) {
    alignas(64) float buffer[Batch::size];
    values.store_aligned(buffer);
    float most = buffer[0];
    for (std::size_t i = 1; i < Batch::size; ++i) most = buffer[i] > most ? buffer[i] : most;
    return most;
  }
};

#if defined(__AVX2__)
template <>
struct Lanes<xsimd::fma3<xsimd::avx2>> {
  using Batch = xsimd::batch<float, xsimd::fma3<xsimd::avx2>>;
  static constexpr bool kFused = true;

  static Batch fma(const Batch& a, const Batch& b, const Batch& c) { return _mm256_fmadd_ps(a, b, c); }
  /// Returns, in each lane, table[index % 8].
  static Batch look_up(const Batch& table,
                       const xsimd::batch<std::int32_t, xsimd::fma3<xsimd::avx2>>& index) {
    return _mm256_permutevar8x32_ps(table, index);
  }

  static __m256i first(std::size_t n) {
    alignas(64) static constexpr std::int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes + Batch::size - n));
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
  static constexpr bool kFused = true;

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

/// Tables for log2(m) with m in [1, 2). This interval is divided into `parts` equal parts, and v is a number
/// in each part: about the middle, but 1 in the first part, so that log2(1) is exactly 0. kInverses holds 1 /
/// v, kLogarithms holds log2(v), and kRest holds the coefficients of a polynomial for log2(1 + r) / r.
/// The bits of m, shifted right by kShift, end with the index of its part.
template <std::size_t parts>
struct Log2Parts;

template <>
struct Log2Parts<8> {
  alignas(64) static constexpr float kInverses[] = {1.0F,         0.842105269F, 0.761904776F, 0.695652187F,
                                                    0.639999986F, 0.592592597F, 0.551724136F, 0.516129017F};
  alignas(64) static constexpr float kLogarithms[] = {0.0F,         0.247927502F, 0.392317384F, 0.523561954F,
                                                      0.643856227F, 0.754887462F, 0.857981026F, 0.954196334F};
  static constexpr float kRest[] = {1.4426949F, -0.721351981F, 0.481049001F, -0.359534502F, 0.245532587F};
  static constexpr int kShift = 20;
};

template <>
struct Log2Parts<16> {
  alignas(64) static constexpr float kInverses[] = {1.0F,         0.914285719F, 0.864864886F, 0.820512831F,
                                                    0.780487776F, 0.744186044F, 0.711111128F, 0.680851042F,
                                                    0.653061211F, 0.627451003F, 0.603773594F, 0.581818163F,
                                                    0.561403513F, 0.542372882F, 0.524590135F, 0.507936537F};
  alignas(64) static constexpr float kLogarithms[] = {0.0F,         0.129283011F, 0.209453329F, 0.285402209F,
                                                      0.357552052F, 0.426264763F, 0.491853058F, 0.554588914F,
                                                      0.614709854F, 0.67242527F,  0.727920413F, 0.781359732F,
                                                      0.832889974F, 0.882643044F, 0.930737436F, 0.977279842F};
  static constexpr float kRest[] = {1.44269514F, -0.721365392F, 0.480858833F, -0.338915944F};
  static constexpr int kShift = 19;
};

template <typename Arch>
struct VectorMath {
  using Batch = xsimd::batch<float, Arch>;
  using Integers = xsimd::batch<std::int32_t, Arch>;

  /// A number high + low that is more exact than a float. `low` is small compared with `high`.
  struct SplitFloat {
    Batch high, low;
  };

  /// Return min(v, limit) and max(v, limit), in this order. NaN gives NaN.
  static Batch at_most(const Batch& v, float limit) { return xsimd::min(Batch(limit), v); }
  static Batch at_least(const Batch& v, float limit) { return xsimd::max(Batch(limit), v); }

  static Batch bits(std::uint32_t pattern) {
    return xsimd::bitwise_cast<Batch>(Integers(static_cast<std::int32_t>(pattern)));
  }

  static Batch fma(const Batch& a, const Batch& b, const Batch& c) { return Lanes<Arch>::fma(a, b, c); }
  static Batch fma(const Batch& a, float b, const Batch& c) { return fma(a, Batch(b), c); }

  /// Returns c[0] + v c[1] + v^2 c[2] + ...
  template <std::size_t N>
  static Batch polynomial(const Batch& v, const float (&c)[N]) {
    Batch sum(c[N - 1]);
    for (std::size_t i = N - 1; i-- > 0;) sum = fma(sum, v, Batch(c[i]));
    return sum;
  }

  /// Returns v without the lower 12 bits of its significand. The product of two such numbers is exact.
  static Batch upper(const Batch& v) { return v & bits(0xFFFFF000U); }

  static SplitFloat product(const Batch& a, const Batch& b) {
    const Batch high = a * b;
    if constexpr (Lanes<Arch>::kFused) {
      return {high, fma(a, b, -high)};
    } else {
      const Batch a_high = upper(a);
      const Batch b_high = upper(b);
      const Batch a_low = a - a_high;
      const Batch b_low = b - b_high;
      return {high, ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low};
    }
  }

  static SplitFloat sum(const Batch& a, const Batch& b) {
    const Batch high = a + b;
    const Batch of_b = high - a;
    return {high, (a - (high - of_b)) + (b - of_b)};
  }

  /// A reduced argument: e^x = 2^n e^r with an integer n and |r| < 0.35.
  struct Reduced {
    Batch biased;  // n + bias
    Batch r;

    /// Returns 2^n for -127 < n < 128. The low bits of `biased` are the exponent bits of the result.
    [[nodiscard]] Batch power() const {
      return xsimd::bitwise_cast<Batch>(xsimd::bitwise_cast<Integers>(biased) << 23);
    }
    /// Returns v 2^n for -191 < n <= 0. The result is rounded only once, even if it is subnormal.
    [[nodiscard]] Batch scale(const Batch& v) const {
      if constexpr (requires { Lanes<Arch>::scale(v, v); }) {
        return Lanes<Arch>::scale(v, biased - Batch(kBias));
      } else {
        constexpr std::int32_t up = 64;
        const Integers exponent = (xsimd::bitwise_cast<Integers>(biased) << 23) + Integers(up << 23);
        return v * xsimd::bitwise_cast<Batch>(exponent) * Batch(0x1p-64F);
      }
    }
    [[nodiscard]] Batch exp() const {
      const Batch one(1.0F);
      return fma(fma(polynomial(r, kExpRest), r, one), r, one);
    }
    /// Returns e^r - 1.
    [[nodiscard]] Batch less_one() const { return fma(r * r, polynomial(r, kExpRest), r); }
  };

  /// 1.5 2^23, plus the exponent bias of floats. Adding 1.5 2^23 to a small number rounds it to an integer.
  static constexpr float kBias = 0x1.8p23F + 127;
  static constexpr float kLn2High = -0.693359375F;
  static constexpr float kLn2Low = 2.12194440e-4F;
  /// Coefficients of a polynomial in r for (e^r - 1 - r) / r^2.
  static constexpr float kExpRest[] = {0.49999994F, 0.166665211F, 0.041668389F, 0.00836871751F,
                                       0.00138145988F};

  /// Reduces `from`, which is close to x. Uses the n of x.
  static Reduced reduce(const Batch& x, const Batch& from) {
    const Batch biased = fma(x, 1.44269504F, Batch(kBias));
    const Batch n = biased - Batch(kBias);
    return {biased, fma(n, kLn2Low, fma(n, kLn2High, from))};
  }
  static Reduced reduce(const Batch& x) { return reduce(x, x); }
  /// Reduces the argument x.high + x.low, where |x.low| < 1.
  static Reduced reduce(const SplitFloat& x) {
    Reduced reduced = reduce(x.high + x.low, x.high);
    reduced.r = reduced.r + x.low;
    return reduced;
  }

  /// Returns e^x for x <= 0; -inf gives exactly 0. For x < -104, where e^x rounds to 0, returns 0 without
  /// computing e^x: underflow can be slow, and masked scores cause many of these results.
  static Batch exp_of_negative(const Batch& x) {
    const Batch zero(0.0F);
    if (!xsimd::any(x < Batch(-87.0F))) {
      const Reduced reduced = reduce(x);
      return reduced.power() * reduced.exp();
    }
    const auto vanishes = x < Batch(-104.0F);
    const Reduced reduced = reduce(xsimd::select(vanishes, zero, x));
    return xsimd::select(vanishes, zero, reduced.scale(reduced.exp()));
  }

  /// Returns tanh(x): x + x^3 P(x^2) with a polynomial P for small |x|, otherwise 1 - 2 z / (1 + z) with z =
  /// e^(-2 |x|) and the sign of x. Infinities give -1 and 1.
  static Batch tanh(const Batch& x) {
    constexpr float rest[] = {-0.333333164F, 0.13332586F, -0.0538523085F, 0.0210716743F, -0.00627423357F};
    const Batch a = at_most(xsimd::abs(x), 10.0F);
    const Batch square = a * a;
    const Batch near = fma(a * square, polynomial(square, rest), a);
    const Reduced reduced = reduce(a * Batch(-2.0F));
    const Batch less = reduced.less_one();
    const Batch power = reduced.power();
    const Batch one(1.0F);
    const Batch twice = power + power;
    const Batch far = one - fma(twice, less, twice) / fma(power, less, power + one);
    return xsimd::bitofsign(x) ^ xsimd::select(a < Batch(0.55F), near, far);
  }

  /// Returns x / (1 + e^-gate) for gate in [-120, -60]. There 1 can be neglected, so the result is x e^gate.
  static Batch gated_low(const Batch& x, const SplitFloat& gate) {
    const Reduced reduced = reduce(gate);
    return reduced.scale(fma(x, reduced.less_one(), x));
  }

  /// Returns x / (1 + e^-gate) for gate in [-87, 87]. `negative` is the reduced argument -gate.
  static Batch gated_high(const Batch& x, const Reduced& negative) {
    const Batch power = negative.power();
    return x / (power + fma(power, negative.less_one(), Batch(1.0F)));
  }

  /// Returns x / (1 + e^-x). -inf gives NaN, like -inf * 0.
  static Batch silu(const Batch& x) {
    const Batch zero(0.0F);
    const Batch high = gated_high(x, reduce(zero - at_most(x, 87.0F)));
    const auto low = x < Batch(-86.0F);
    if (!xsimd::any(low)) return high;
    const Batch clamped = at_most(at_least(x, -120.0F), -86.0F);
    return xsimd::select(low, fma(x, 0.0F, gated_low(clamped, {clamped, zero})), high);
  }

  /// Returns x / 2 (1 + tanh u) = x / (1 + e^(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3). -inf gives
  /// NaN. 2 u is a SplitFloat, because for |2 u| near 100 the exponential would amplify a rounding error to
  /// 64 units.
  static Batch gelu_tanh(const Batch& x) {
    const Batch inner = at_most(at_least(x, -10.9F), 9.0F);
    const SplitFloat square = product(inner, inner);
    const Batch cubic(0.0713548139F);
    SplitFloat factor = product(cubic, square.high);
    const Batch low = factor.low + fma(cubic, square.low, square.high * Batch(2.39883247e-9F));
    factor = sum(Batch(1.59576917F), factor.high);
    factor.low = factor.low + (low + Batch(-4.53406805e-8F));
    SplitFloat gate = product(inner, factor.high);
    gate.low = fma(inner, factor.low, gate.low);
    const Batch zero(0.0F);
    const Batch high = gated_high(x, reduce({zero - gate.high, zero - gate.low}));
    const auto low_side = x < Batch(-9.0F);
    if (!xsimd::any(low_side)) return high;
    return xsimd::select(low_side, fma(x, 0.0F, gated_low(inner, gate)), high);
  }

  /// Returns x / 2 (1 + erf(x / sqrt 2)), which is x P(N < x) for a standard normal N. Differs by at most 4
  /// units in the last place for x < -0.5. Avoids cancellation: uses a polynomial near 0, otherwise P(N < -a)
  /// = e^(-a^2 / 2) M(a) / sqrt(2 pi) with a = |x|. Mills' ratio M(a) approaches 1 / a for large a and is
  /// computed as q / (a q + p), where errors of q have little effect. -inf gives NaN.
  static Batch gelu_erf(const Batch& x) {
    constexpr float center[] = {0.398942262F, -0.0664895773F, 0.00996190589F, -0.00112444384F};
    constexpr float q[] = {1.25331414F,  1.36289239F,   0.711541295F,
                           0.215081632F, 0.0376521014F, 0.00315523101F};
    constexpr float p[] = {2.50662827F, 1.58419204F, 0.524136424F, 0.0943425149F,
                           0.00790972356F};  // sqrt(2 pi) p
    const Batch near = x * fma(x, polynomial(x * x, center), Batch(0.5F));
    const Batch a = at_most(xsimd::abs(x), 15.0F);
    const Batch first = upper(a);
    const Reduced reduced = reduce({first * first * Batch(-0.5F), (first - a) * (first + a) * Batch(0.5F)});
    const Batch above = a * polynomial(a, q);
    const Batch below = fma(above, 2.50662827F, polynomial(a, p));
    const Batch tail = reduced.scale(fma(above, reduced.less_one(), above) / below);
    const Batch zero(0.0F);
    const Batch far = xsimd::select(x > zero, x, x * zero) - tail;
    return xsimd::select(a < Batch(0.5F), near, far);
  }

  /// Returns log2(x) for a normal float x > 0. The error is at most max(1e-7, 2e-7 |log2(x)|). For any other
  /// x, including NaN, the result is a finite number without meaning.
  static Batch log2(const Batch& x) {
    if constexpr (requires { Lanes<Arch>::look_up(x, Integers()); }) {
      return log2_by_parts(x);
    } else {
      constexpr float rest[] = {1.44269478F,  -0.721356034F, 0.480937302F, -0.360123873F,
                                0.286751121F, -0.249745086F, 0.23657389F,  -0.146305412F};
      const Integers number = xsimd::bitwise_cast<Integers>(x);
      const Integers n = (number - Integers(0x3F3504F3)) >> 23;  // x / 2^n in [sqrt(1/2), sqrt 2)
      const Batch f = xsimd::bitwise_cast<Batch>(number - (n << 23)) - Batch(1.0F);
      return fma(f, polynomial(f, rest), xsimd::to_float(n));
    }
  }

  /// Returns log2(x) for x = 2^n m with m in [1, 2), computed as n + log2(v) + log2(1 + r) with r = m / v - 1
  /// (v: see Log2Parts). Source: P. T. P. Tang, Table-driven implementation of the logarithm function in IEEE
  /// floating-point arithmetic, ACM TOMS 16, 1990.
  static Batch log2_by_parts(const Batch& x) {
    using Parts = Log2Parts<Batch::size>;
    const Batch inverses = Batch::load_aligned(Parts::kInverses);
    const Batch logarithms = Batch::load_aligned(Parts::kLogarithms);
    constexpr std::int32_t one = 0x3F800000;
    const Integers number = xsimd::bitwise_cast<Integers>(x);
    const Batch n = xsimd::to_float((number - Integers(one)) >> 23);
    const Batch m = xsimd::bitwise_cast<Batch>((number & Integers(0x007FFFFF)) | Integers(one));
    const Integers part = number >> Parts::kShift;
    const Batch r = fma(m, Lanes<Arch>::look_up(inverses, part), Batch(-1.0F));
    return n + fma(r, polynomial(r, Parts::kRest), Lanes<Arch>::look_up(logarithms, part));
  }
};

}  // namespace
}  // namespace attnctl::linalg

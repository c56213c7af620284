#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "base/half.hpp"
#include "linalg/encoded.hpp"

// Decoders of all encodings for one instruction set. The compiler vectorises the loops. The formulas are
// those of the functions dequantize_row_* of ggml (ggml-quants.c); the order of products and sums is the
// same. kernels_impl.hpp explains why everything is in an unnamed namespace.

namespace attnctl::linalg {
namespace {

inline float half_at(const std::uint8_t* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
#if defined(__F16C__)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
#else
  return float_of_half(bits);
#endif
}

inline float scaled(float scale, int value) {
  return scale * static_cast<float>(value);
}

#if defined(__AVX2__)
#define ATTNCTL_DECODE_AVX2

inline __m128i sixteen_bytes(const std::uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

/// Returns bits [shift, shift + 4) of 16 bytes.
inline __m128i four_bits(__m128i bytes, int shift) {
  return _mm_and_si128(_mm_srl_epi16(bytes, _mm_cvtsi32_si128(shift)), _mm_set1_epi8(0xF));
}

/// Stores the products of a scale and 16 signed bytes. If kOffset is true, adds `offset` to each product.
template <bool kOffset = false>
inline void store_products(float scale, __m128i numbers, float* to, float offset = 0) {
#if defined(__AVX512F__)
  const __m512 products =
      _mm512_mul_ps(_mm512_set1_ps(scale), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(numbers)));
  _mm512_storeu_ps(to, kOffset ? _mm512_add_ps(products, _mm512_set1_ps(offset)) : products);
#else
  const auto eight = [&](__m128i bytes, float* at) __attribute__((always_inline)) {
    const __m256 products =
        _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
    _mm256_storeu_ps(at, kOffset ? _mm256_add_ps(products, _mm256_set1_ps(offset)) : products);
  };
  eight(numbers, to);
  eight(_mm_unpackhi_epi64(numbers, numbers), to + 8);
#endif
}

/// Returns 16 in each byte whose bit in `bits` is 1, and 0 in the others.
inline __m128i sixteen_if(std::uint32_t bits) {
  const __m128i spread = _mm_shuffle_epi8(_mm_cvtsi32_si128(static_cast<int>(bits)),
                                          _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
  const __m128i own = _mm_set1_epi64x(static_cast<std::int64_t>(0x8040201008040201U));
  return _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(spread, own), own), _mm_set1_epi8(16));
}
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define ATTNCTL_DECODE_AVX512
// With AVX-512, the values of a block that have four or five bits are looked up in a table of all values.

/// Returns scale * (first + 0), ..., scale * (first + 15).
inline __m512 sixteen_products(float scale, int first) {
  const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i numbers = _mm512_add_epi32(steps, _mm512_set1_epi32(first));
  return _mm512_mul_ps(_mm512_set1_ps(scale), _mm512_cvtepi32_ps(numbers));
}

/// Stores table[byte & 15] for 16 bytes, or table[16 + ...] where a bit of `fifth` is 1. The low four bits
/// are the index: the instruction ignores the others.
inline void look_up(__m512 table, __m128i bytes, float* to) {
  _mm512_storeu_ps(to, _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(bytes), table));
}
inline void look_up(__m512 table, __m512 upper, __mmask16 fifth, __m128i bytes, float* to) {
  const __m512i low = _mm512_and_si512(_mm512_cvtepu8_epi32(bytes), _mm512_set1_epi32(15));
  const __m512i index = _mm512_mask_or_epi32(low, fifth, low, _mm512_set1_epi32(16));
  _mm512_storeu_ps(to, _mm512_permutex2var_ps(table, index, upper));
}
inline __m128i high_halves(__m128i bytes) {
  return _mm_srli_epi16(bytes, 4);  // the upper bits of a byte are ignored
}
#endif

/// A block of Q4_0, Q4_1, Q5_0 or Q5_1. It has a scale, a minimum if kMinimum is true, the fifth bit of each
/// value if kFive is true, and the low four bits of each value in 16 bytes. The low halves of these bytes
/// hold the first 16 values and the high halves the last 16. If kMinimum is false, values are centred on 0.
template <bool kFive, bool kMinimum>
struct SmallBlock {
  static constexpr std::size_t kValues = 32;
  static constexpr std::size_t kBytes = 18 + (kMinimum ? 2 : 0) + (kFive ? 4 : 0);

  static void decode(const std::uint8_t* __restrict block, float* __restrict values) {
    constexpr int kCentre = kMinimum ? 0 : kFive ? 16 : 8;
    const float scale = half_at(block);
    const float minimum = kMinimum ? half_at(block + 2) : 0;
    const std::uint8_t* packed = block + (kMinimum ? 4 : 2);
    std::uint32_t fifth = 0;  // bit i is the fifth bit of value i
    if (kFive) {
      std::memcpy(&fifth, packed, sizeof fifth);
      packed += sizeof fifth;
    }
#if defined(ATTNCTL_DECODE_AVX512)
    __m512 table = sixteen_products(scale, -kCentre);
    if (kMinimum) table = _mm512_add_ps(table, _mm512_set1_ps(minimum));
    const __m128i bytes = sixteen_bytes(packed);
    if (!kFive) {
      look_up(table, bytes, values);
      look_up(table, high_halves(bytes), values + 16);
      return;
    }
    __m512 upper = sixteen_products(scale, 16 - kCentre);
    if (kMinimum) upper = _mm512_add_ps(upper, _mm512_set1_ps(minimum));
    look_up(table, upper, static_cast<__mmask16>(fifth), bytes, values);
    look_up(table, upper, static_cast<__mmask16>(fifth >> 16), high_halves(bytes), values + 16);
    return;
#elif defined(ATTNCTL_DECODE_AVX2)
    const __m128i bytes = sixteen_bytes(packed);
    for (int half = 0; half < 2; ++half) {
      __m128i numbers = four_bits(bytes, 4 * half);
      if (kFive) numbers = _mm_or_si128(numbers, sixteen_if(fifth >> (16 * half)));
      numbers = _mm_sub_epi8(numbers, _mm_set1_epi8(kCentre));
      store_products<kMinimum>(scale, numbers, values + 16 * half, minimum);
    }
    return;
#endif
    const auto value = [&](int low, std::uint32_t i) __attribute__((always_inline)) {
      const int whole = kFive ? low | static_cast<int>((fifth >> i) & 1U) << 4 : low;
      const float product = scaled(scale, whole - kCentre);
      return kMinimum ? product + minimum : product;  // without a minimum, adding 0 would change -0 to 0
    };
    for (std::uint32_t i = 0; i < kValues / 2; ++i) values[i] = value(packed[i] & 0xF, i);
    for (std::uint32_t i = 0; i < kValues / 2; ++i)
      values[kValues / 2 + i] = value(packed[i] >> 4, kValues / 2 + i);
  }
};

/// A block of Q8_0: a scale and 32 signed bytes.
struct ByteBlock {
  static constexpr std::size_t kValues = 32;
  static constexpr std::size_t kBytes = 34;

  static void decode(const std::uint8_t* __restrict block, float* __restrict values) {
    const float scale = half_at(block);
#if defined(ATTNCTL_DECODE_AVX2)
    for (std::size_t i = 0; i < kValues; i += 16)
      store_products(scale, sixteen_bytes(block + 2 + i), values + i);
    return;
#endif
    for (std::size_t i = 0; i < kValues; ++i)
      values[i] = scaled(scale, static_cast<std::int8_t>(block[2 + i]));
  }
};

/// A block of Q4_K, or of Q5_K if kFive is true: eight parts of 32 values, each with its own scale and
/// minimum. In Q5_K, the fifth bit of value i of a part is bit `part` of byte i after the scales.
template <bool kFive>
struct SuperBlock {
  static constexpr std::size_t kValues = 256;
  static constexpr std::size_t kBytes = kFive ? 176 : 144;
  static constexpr std::size_t kPart = 32;

  struct Scale {
    float scale, minimum;
  };
  /// Returns the scale and the minimum of a part. They have six bits each, and are packed into 12 bytes after
  /// the two float16 numbers at the beginning of the block.
  static Scale scale_of(const std::uint8_t* block, std::size_t part) {
    const std::uint8_t* packed = block + 4;
    int scale = packed[part] & 63;
    int minimum = packed[part + 4] & 63;
    if (part >= 4) {
      scale = (packed[part + 4] & 0xF) | (packed[part - 4] >> 6) << 4;
      minimum = packed[part + 4] >> 4 | (packed[part] >> 6) << 4;
    }
    return {scaled(half_at(block), scale), scaled(half_at(block + 2), minimum)};
  }

  static void decode(const std::uint8_t* __restrict block, float* __restrict values) {
    const std::uint8_t* const fifth = block + 16;
    for (std::size_t part = 0; part < 8; ++part) {
      const Scale s = scale_of(block, part);
      const std::uint8_t* const packed = block + 16 + (kFive ? kPart : 0) + part / 2 * kPart;
      float* const to = values + kPart * part;
#if defined(ATTNCTL_DECODE_AVX512)
      const __m512 minimum = _mm512_set1_ps(s.minimum);
      const __m512 table = _mm512_sub_ps(sixteen_products(s.scale, 0), minimum);
      const __m512 upper = kFive ? _mm512_sub_ps(sixteen_products(s.scale, 16), minimum) : table;
      for (std::size_t i = 0; i < kPart; i += 16) {
        __m128i bytes = sixteen_bytes(packed + i);
        if (part % 2 != 0) bytes = high_halves(bytes);
        if (!kFive) {
          look_up(table, bytes, to + i);
          continue;
        }
        const __m128i bit = _mm_set1_epi8(static_cast<char>(1U << part));
        look_up(table, upper, _mm_test_epi8_mask(sixteen_bytes(fifth + i), bit), bytes, to + i);
      }
      continue;
#elif defined(ATTNCTL_DECODE_AVX2)
      const __m128i bit = _mm_set1_epi8(static_cast<char>(1U << part));
      for (std::size_t i = 0; i < kPart; i += 16) {
        __m128i numbers = four_bits(sixteen_bytes(packed + i), part % 2 == 0 ? 0 : 4);
        if (kFive) {
          const __m128i is_set = _mm_cmpeq_epi8(_mm_and_si128(sixteen_bytes(fifth + i), bit), bit);
          numbers = _mm_or_si128(numbers, _mm_and_si128(is_set, _mm_set1_epi8(16)));
        }
        store_products<true>(s.scale, numbers, to + i, -s.minimum);
      }
      continue;
#endif
      const int shift = part % 2 == 0 ? 0 : 4;
      for (std::size_t i = 0; i < kPart; ++i) {
        int value = packed[i] >> shift & 0xF;
        if (kFive) value += (fifth[i] >> part & 1) << 4;
        to[i] = scaled(s.scale, value) - s.minimum;
      }
    }
  }
};

/// A block of Q6_K: two halves of 128 values; a half has four groups of 32 values. Each 16 consecutive values
/// share a scale.
struct SixBitBlock {
  static constexpr std::size_t kValues = 256;
  static constexpr std::size_t kBytes = 210;

  static void decode(const std::uint8_t* __restrict block, float* __restrict values) {
    const float whole = half_at(block + 208);
    for (std::size_t sixteen = 0; sixteen < 16; ++sixteen) {
      const std::size_t half = sixteen / 8;
      const std::size_t group = sixteen % 8 / 2;
      const std::uint8_t* const four = block + 64 * half + 32 * (group % 2) + 16 * (sixteen % 2);
      const std::uint8_t* const two = block + 128 + 32 * half + 16 * (sixteen % 2);
      const float scale = scaled(whole, static_cast<std::int8_t>(block[192 + sixteen]));
      const int low = group < 2 ? 0 : 4;
      const int high = static_cast<int>(2 * group);
      float* const to = values + 16 * sixteen;
#if defined(ATTNCTL_DECODE_AVX2)
      const __m128i upper = _mm_and_si128(four_bits(sixteen_bytes(two), high), _mm_set1_epi8(3));
      const __m128i numbers = _mm_or_si128(four_bits(sixteen_bytes(four), low), _mm_slli_epi16(upper, 4));
      store_products(scale, _mm_sub_epi8(numbers, _mm_set1_epi8(32)), to);
      continue;
#endif
      for (std::size_t i = 0; i < 16; ++i)
        to[i] = scaled(scale, ((four[i] >> low & 0xF) | (two[i] >> high & 3) << 4) - 32);
    }
  }
};

/// A block of MXFP4: an exponent and 32 numbers with a sign, two exponent bits and one bit of fraction.
struct MicroscaleBlock {
  static constexpr std::size_t kValues = 32;
  static constexpr std::size_t kBytes = 17;

  static void decode(const std::uint8_t* __restrict block, float* __restrict values) {
    // Twice the numbers. The scale is half of 2^(exponent - 127); below 2^-126 it is subnormal.
    static constexpr std::int8_t kNumbers[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const std::uint32_t exponent = block[0];
    const auto scale = std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23U);
    for (std::size_t i = 0; i < kValues / 2; ++i) {
      values[i] = scaled(scale, kNumbers[block[1 + i] & 0xF]);
      values[kValues / 2 + i] = scaled(scale, kNumbers[block[1 + i] >> 4]);
    }
  }
};

template <typename Block>
void decode_blocks(const std::byte* blocks, std::size_t count, float* values) {
  const auto* const from = reinterpret_cast<const std::uint8_t*>(blocks);
  for (std::size_t b = 0; b < count; ++b)
    Block::decode(from + b * Block::kBytes, values + b * Block::kValues);
}

inline void decode_f16(const std::byte* halves, std::size_t count, float* values) {
  std::size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_ps(values + i,
                     _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves + 2 * i))));
#endif
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(values + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + 2 * i))));
#endif
  for (; i < count; ++i) values[i] = half_at(reinterpret_cast<const std::uint8_t*>(halves) + 2 * i);
}

inline void decode_bf16(const std::byte* halves, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, halves + 2 * i, sizeof bits);
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
}

/// Returns the decoders in the order of NumberEncoding.
constexpr std::array<Decode, kEncodings> decode_table() {
  return {decode_f16,
          decode_bf16,
          decode_blocks<SmallBlock<false, false>>,
          decode_blocks<SmallBlock<false, true>>,
          decode_blocks<SmallBlock<true, false>>,
          decode_blocks<SmallBlock<true, true>>,
          decode_blocks<ByteBlock>,
          decode_blocks<SuperBlock<false>>,
          decode_blocks<SuperBlock<true>>,
          decode_blocks<SixBitBlock>,
          decode_blocks<MicroscaleBlock>};
}

}  // namespace
}  // namespace attnctl::linalg

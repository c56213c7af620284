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
#include "linalg/kernels/vector_math.hpp"

// Decoders of all encodings for one instruction set. The formulas are those of the functions
// dequantize_row_* of ggml (ggml-quants.c); the order of products and sums is the same. kernels_impl.hpp
// explains why everything is in an unnamed namespace.
//
// A block of integers has parts with kPart values that share a scale. If kOffset is true, they also share an
// offset, which is added to the product of scale and integer. With AVX2, a type of block has functions that
// return the scale of a part and 16 integers of the block. Without AVX2, the compiler vectorises the loops.

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

/// The scale and the offset of a part.
struct PartScale {
  float scale = 0;
  float offset = 0;
};

#if defined(__AVX2__)
#define ATTNCTL_DECODE_AVX2

inline __m128i sixteen_bytes(const std::uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

/// Returns bits [shift, shift + 4) of 16 bytes.
inline __m128i four_bits(__m128i bytes, int shift) {
  return _mm_and_si128(_mm_srl_epi16(bytes, _mm_cvtsi32_si128(shift)), _mm_set1_epi8(0xF));
}

/// Returns the high halves of x twice.
inline __m128i upper_half(__m128i x) {
  return _mm_unpackhi_epi64(x, x);
}

/// Returns scale * number, plus the offset if kOffset is true, for the first eight signed bytes.
template <bool kOffset>
inline __m256 eight_values(__m256 scale, __m256 offset, __m128i numbers) {
  const __m256 products = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(numbers)));
  return kOffset ? _mm256_add_ps(products, offset) : products;
}

/// Stores the values of 16 signed bytes.
template <bool kOffset>
inline void store_values(PartScale part, __m128i numbers, float* to) {
#if defined(__AVX512F__)
  const __m512 products =
      _mm512_mul_ps(_mm512_set1_ps(part.scale), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(numbers)));
  _mm512_storeu_ps(to, kOffset ? _mm512_add_ps(products, _mm512_set1_ps(part.offset)) : products);
#else
  const __m256 scale = _mm256_set1_ps(part.scale);
  const __m256 offset = _mm256_set1_ps(part.offset);
  _mm256_storeu_ps(to, eight_values<kOffset>(scale, offset, numbers));
  _mm256_storeu_ps(to + 8, eight_values<kOffset>(scale, offset, upper_half(numbers)));
#endif
}

/// Decodes one block.
template <typename Block>
inline void decode_parts(const std::uint8_t* block, float* values) {
  constexpr std::size_t kSixteens = Block::kPart / 16;
  for (std::size_t part = 0; part < Block::kValues / Block::kPart; ++part) {
    const PartScale scale = Block::scale_of(block, part);
    for (std::size_t i = 0; i < kSixteens; ++i)
      store_values<Block::kOffset>(scale, Block::sixteen(block, part * kSixteens + i),
                                   values + part * Block::kPart + 16 * i);
  }
}

/// Decodes blocks of eight rows as DecodeColumns says. Transposing the integers takes half of the shuffles
/// that transposing the values takes, and the values are stored only once.
template <typename Block>
void decode_columns(const std::byte* const* rows, std::size_t count, float* to, std::size_t stride) {
  constexpr std::size_t kSixteens = Block::kPart / 16;
  for (std::size_t b = 0; b < count; ++b) {
    const auto block = [&](auto row) __attribute__((always_inline)) {
      return reinterpret_cast<const std::uint8_t*>(rows[row]) + b * Block::kBytes;
    };
    for (std::size_t part = 0; part < Block::kValues / Block::kPart; ++part) {
      alignas(32) float scales[8], offsets[8];
      unroll<8>([&](auto row) {
        const PartScale own = Block::scale_of(block(row), part);
        scales[row] = own.scale;
        offsets[row] = own.offset;
      });
      const __m256 scale = _mm256_load_ps(scales);
      const __m256 offset = _mm256_load_ps(offsets);
      for (std::size_t i = 0; i < kSixteens; ++i) {
        __m128i numbers[8];
        __m128i twos[8];
        unroll<8>([&](auto row) { numbers[row] = Block::sixteen(block(row), part * kSixteens + i); });
        // Each step interleaves rows that are 4, 2 and 1 apart. In the end, each vector holds two columns.
        unroll<4>([&](auto r) {
          twos[r] = _mm_unpacklo_epi8(numbers[r], numbers[r + 4]);
          twos[r + 4] = _mm_unpackhi_epi8(numbers[r], numbers[r + 4]);
        });
        unroll<2>([&](auto half) {
          unroll<2>([&](auto r) {
            numbers[4 * half + r] = _mm_unpacklo_epi8(twos[4 * half + r], twos[4 * half + r + 2]);
            numbers[4 * half + r + 2] = _mm_unpackhi_epi8(twos[4 * half + r], twos[4 * half + r + 2]);
          });
        });
        unroll<4>([&](auto quarter) {
          twos[2 * quarter] = _mm_unpacklo_epi8(numbers[2 * quarter], numbers[2 * quarter + 1]);
          twos[2 * quarter + 1] = _mm_unpackhi_epi8(numbers[2 * quarter], numbers[2 * quarter + 1]);
        });
        unroll<8>([&](auto pair) {
          const __m128i two = twos[pair];
          _mm256_store_ps(to, eight_values<Block::kOffset>(scale, offset, two));
          _mm256_store_ps(to + stride, eight_values<Block::kOffset>(scale, offset, upper_half(two)));
          to += 2 * stride;
        });
      }
    }
  }
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
  static constexpr std::size_t kPart = 32;
  static constexpr bool kOffset = kMinimum;  // adding 0 would change -0 to 0
  static constexpr int kCentre = kMinimum ? 0 : kFive ? 16 : 8;

  static PartScale scale_of(const std::uint8_t* block, std::size_t /*part*/) {
    return {half_at(block), kMinimum ? half_at(block + 2) : 0};
  }
  /// Returns the fifth bits; bit i belongs to value i.
  static std::uint32_t fifth_bits(const std::uint8_t* block) {
    std::uint32_t bits = 0;
    if (kFive) std::memcpy(&bits, block + (kMinimum ? 4 : 2), sizeof bits);
    return bits;
  }
  static const std::uint8_t* packed(const std::uint8_t* block) { return block + kBytes - kValues / 2; }

#if defined(ATTNCTL_DECODE_AVX2)
  static __m128i sixteen(const std::uint8_t* block, std::size_t index) {
    __m128i numbers = four_bits(sixteen_bytes(packed(block)), static_cast<int>(4 * index));
    if (kFive) numbers = _mm_or_si128(numbers, sixteen_if(fifth_bits(block) >> (16 * index)));
    return _mm_sub_epi8(numbers, _mm_set1_epi8(kCentre));
  }
#endif

  static void decode(const std::uint8_t* __restrict block, float* __restrict values) {
#if defined(ATTNCTL_DECODE_AVX512)
    const auto [scale, minimum] = scale_of(block, 0);
    __m512 table = sixteen_products(scale, -kCentre);
    if (kMinimum) table = _mm512_add_ps(table, _mm512_set1_ps(minimum));
    const __m128i bytes = sixteen_bytes(packed(block));
    if (!kFive) {
      look_up(table, bytes, values);
      look_up(table, high_halves(bytes), values + 16);
      return;
    }
    const std::uint32_t fifth = fifth_bits(block);
    __m512 upper = sixteen_products(scale, 16 - kCentre);
    if (kMinimum) upper = _mm512_add_ps(upper, _mm512_set1_ps(minimum));
    look_up(table, upper, static_cast<__mmask16>(fifth), bytes, values);
    look_up(table, upper, static_cast<__mmask16>(fifth >> 16), high_halves(bytes), values + 16);
#elif defined(ATTNCTL_DECODE_AVX2)
    decode_parts<SmallBlock>(block, values);
#else
    const PartScale part = scale_of(block, 0);
    const std::uint32_t fifth = fifth_bits(block);
    const std::uint8_t* const four = packed(block);
    const auto value = [&](int low, std::uint32_t i) __attribute__((always_inline)) {
      const int whole = kFive ? low | static_cast<int>((fifth >> i) & 1U) << 4 : low;
      const float product = scaled(part.scale, whole - kCentre);
      return kOffset ? product + part.offset : product;
    };
    for (std::uint32_t i = 0; i < kValues / 2; ++i) values[i] = value(four[i] & 0xF, i);
    for (std::uint32_t i = 0; i < kValues / 2; ++i)
      values[kValues / 2 + i] = value(four[i] >> 4, kValues / 2 + i);
#endif
  }
};

/// A block of Q8_0: a scale and 32 signed bytes.
struct ByteBlock {
  static constexpr std::size_t kValues = 32;
  static constexpr std::size_t kBytes = 34;
  static constexpr std::size_t kPart = 32;
  static constexpr bool kOffset = false;

  static PartScale scale_of(const std::uint8_t* block, std::size_t /*part*/) { return {half_at(block)}; }

#if defined(ATTNCTL_DECODE_AVX2)
  static __m128i sixteen(const std::uint8_t* block, std::size_t index) {
    return sixteen_bytes(block + 2 + 16 * index);
  }
#endif

  static void decode(const std::uint8_t* __restrict block, float* __restrict values) {
#if defined(ATTNCTL_DECODE_AVX2)
    decode_parts<ByteBlock>(block, values);
#else
    const float scale = scale_of(block, 0).scale;
    for (std::size_t i = 0; i < kValues; ++i)
      values[i] = scaled(scale, static_cast<std::int8_t>(block[2 + i]));
#endif
  }
};

/// A block of Q4_K, or of Q5_K if kFive is true: eight parts of 32 values, each with its own scale and
/// minimum. In Q5_K, the fifth bit of value i of a part is bit `part` of byte i after the scales.
template <bool kFive>
struct SuperBlock {
  static constexpr std::size_t kValues = 256;
  static constexpr std::size_t kBytes = kFive ? 176 : 144;
  static constexpr std::size_t kPart = 32;
  static constexpr bool kOffset = true;

  /// Scales and minima have six bits each. They are packed into 12 bytes after the two float16 numbers at the
  /// beginning of the block.
  static PartScale scale_of(const std::uint8_t* block, std::size_t part) {
    const std::uint8_t* packed = block + 4;
    int scale = packed[part] & 63;
    int minimum = packed[part + 4] & 63;
    if (part >= 4) {
      scale = (packed[part + 4] & 0xF) | (packed[part - 4] >> 6) << 4;
      minimum = packed[part + 4] >> 4 | (packed[part] >> 6) << 4;
    }
    return {scaled(half_at(block), scale), -scaled(half_at(block + 2), minimum)};
  }
  static const std::uint8_t* fifth_bits(const std::uint8_t* block) { return block + 16; }
  static const std::uint8_t* packed(const std::uint8_t* block, std::size_t part) {
    return block + 16 + (kFive ? kPart : 0) + part / 2 * kPart;
  }

#if defined(ATTNCTL_DECODE_AVX2)
  static __m128i sixteen(const std::uint8_t* block, std::size_t index) {
    const std::size_t part = index / 2, first = 16 * (index % 2);
    const __m128i bytes = sixteen_bytes(packed(block, part) + first);
    const __m128i numbers = four_bits(bytes, part % 2 == 0 ? 0 : 4);
    if (!kFive) return numbers;
    const __m128i bit = _mm_set1_epi8(static_cast<char>(1U << part));
    const __m128i fifth = _mm_and_si128(sixteen_bytes(fifth_bits(block) + first), bit);
    return _mm_or_si128(numbers, _mm_and_si128(_mm_cmpeq_epi8(fifth, bit), _mm_set1_epi8(16)));
  }
#endif

  static void decode(const std::uint8_t* __restrict block, float* __restrict values) {
#if defined(ATTNCTL_DECODE_AVX512)
    for (std::size_t part = 0; part < kValues / kPart; ++part) {
      const PartScale own = scale_of(block, part);
      const __m512 offset = _mm512_set1_ps(own.offset);
      const __m512 table = _mm512_add_ps(sixteen_products(own.scale, 0), offset);
      const __m512 upper = kFive ? _mm512_add_ps(sixteen_products(own.scale, 16), offset) : table;
      for (std::size_t i = 0; i < kPart; i += 16) {
        float* const to = values + kPart * part + i;
        __m128i bytes = sixteen_bytes(packed(block, part) + i);
        if (part % 2 != 0) bytes = high_halves(bytes);
        if (!kFive) {
          look_up(table, bytes, to);
          continue;
        }
        const __m128i bit = _mm_set1_epi8(static_cast<char>(1U << part));
        look_up(table, upper, _mm_test_epi8_mask(sixteen_bytes(fifth_bits(block) + i), bit), bytes, to);
      }
    }
#elif defined(ATTNCTL_DECODE_AVX2)
    decode_parts<SuperBlock>(block, values);
#else
    for (std::size_t part = 0; part < kValues / kPart; ++part) {
      const PartScale own = scale_of(block, part);
      const int shift = part % 2 == 0 ? 0 : 4;
      for (std::size_t i = 0; i < kPart; ++i) {
        int value = packed(block, part)[i] >> shift & 0xF;
        if (kFive) value += (fifth_bits(block)[i] >> part & 1) << 4;
        values[kPart * part + i] = scaled(own.scale, value) + own.offset;
      }
    }
#endif
  }
};

/// A block of Q6_K: two halves of 128 values; a half has four groups of 32 values. Each 16 consecutive values
/// share a scale.
struct SixBitBlock {
  static constexpr std::size_t kValues = 256;
  static constexpr std::size_t kBytes = 210;
  static constexpr std::size_t kPart = 16;
  static constexpr bool kOffset = false;

  static PartScale scale_of(const std::uint8_t* block, std::size_t part) {
    return {scaled(half_at(block + 208), static_cast<std::int8_t>(block[192 + part]))};
  }

  /// Where the bits of the 16 values of a part are.
  struct BitPlace {
    const std::uint8_t *four, *two;  // the bytes with the low four bits, and with the high two bits
    int four_shift, two_shift;

    BitPlace(const std::uint8_t* block, std::size_t part) {
      const std::size_t half = part / 8;
      const std::size_t group = part % 8 / 2;
      four = block + 64 * half + 32 * (group % 2) + 16 * (part % 2);
      two = block + 128 + 32 * half + 16 * (part % 2);
      four_shift = group < 2 ? 0 : 4;
      two_shift = static_cast<int>(2 * group);
    }
  };

#if defined(ATTNCTL_DECODE_AVX2)
  static __m128i sixteen(const std::uint8_t* block, std::size_t part) {
    const BitPlace at(block, part);
    const __m128i high = _mm_and_si128(four_bits(sixteen_bytes(at.two), at.two_shift), _mm_set1_epi8(3));
    const __m128i low = four_bits(sixteen_bytes(at.four), at.four_shift);
    return _mm_sub_epi8(_mm_or_si128(low, _mm_slli_epi16(high, 4)), _mm_set1_epi8(32));
  }
#endif

  static void decode(const std::uint8_t* __restrict block, float* __restrict values) {
#if defined(ATTNCTL_DECODE_AVX2)
    decode_parts<SixBitBlock>(block, values);
#else
    for (std::size_t part = 0; part < kValues / kPart; ++part) {
      const float scale = scale_of(block, part).scale;
      const BitPlace at(block, part);
      for (std::size_t i = 0; i < kPart; ++i) {
        const int number = (at.four[i] >> at.four_shift & 0xF) | (at.two[i] >> at.two_shift & 3) << 4;
        values[kPart * part + i] = scaled(scale, number - 32);
      }
    }
#endif
  }
};

/// A block of MXFP4: an exponent and 32 numbers with a sign, two exponent bits and one bit of fraction.
struct MicroscaleBlock {
  static constexpr std::size_t kValues = 32;
  static constexpr std::size_t kBytes = 17;
  static constexpr std::size_t kPart = 32;
  static constexpr bool kOffset = false;
  /// Twice the numbers.
  static constexpr std::int8_t kNumbers[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

  /// The scale is half of 2^(exponent - 127); below 2^-126 it is subnormal.
  static PartScale scale_of(const std::uint8_t* block, std::size_t /*part*/) {
    const std::uint32_t exponent = block[0];
    return {std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23U)};
  }

#if defined(ATTNCTL_DECODE_AVX2)
  static __m128i sixteen(const std::uint8_t* block, std::size_t index) {
    const auto* const numbers = reinterpret_cast<const std::uint8_t*>(kNumbers);
    return _mm_shuffle_epi8(sixteen_bytes(numbers),
                            four_bits(sixteen_bytes(block + 1), static_cast<int>(4 * index)));
  }
#endif

  static void decode(const std::uint8_t* __restrict block, float* __restrict values) {
#if defined(ATTNCTL_DECODE_AVX2)
    decode_parts<MicroscaleBlock>(block, values);
#else
    const float scale = scale_of(block, 0).scale;
    for (std::size_t i = 0; i < kValues / 2; ++i) {
      values[i] = scaled(scale, kNumbers[block[1 + i] & 0xF]);
      values[kValues / 2 + i] = scaled(scale, kNumbers[block[1 + i] >> 4]);
    }
#endif
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

/// Returns decode_columns for this type of block; null if there is no such function.
template <typename Block>
constexpr DecodeColumns columns_decoder() {
#if defined(ATTNCTL_DECODE_AVX2) && !defined(ATTNCTL_DECODE_AVX512)
  return decode_columns<Block>;
#else
  return nullptr;
#endif
}

/// Both functions for one type of block.
template <typename Block>
constexpr Decoders decoders_of() {
  return {decode_blocks<Block>, columns_decoder<Block>()};
}

/// Returns the decoders in the order of NumberEncoding.
constexpr std::array<Decoders, kEncodings> decoder_table() {
  return {Decoders{decode_f16, nullptr},
          Decoders{decode_bf16, nullptr},
          decoders_of<SmallBlock<false, false>>(),
          decoders_of<SmallBlock<false, true>>(),
          decoders_of<SmallBlock<true, false>>(),
          decoders_of<SmallBlock<true, true>>(),
          decoders_of<ByteBlock>(),
          decoders_of<SuperBlock<false>>(),
          decoders_of<SuperBlock<true>>(),
          decoders_of<SixBitBlock>(),
          decoders_of<MicroscaleBlock>()};
}

}  // namespace
}  // namespace attnctl::linalg

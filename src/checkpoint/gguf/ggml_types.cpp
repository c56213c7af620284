#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "checkpoint/gguf/gguf.hpp"
#include "checkpoint/readers.hpp"

namespace attnctl::checkpoint {
namespace {

// The formulas are those of the functions dequantize_row_* of ggml (ggml-quants.c). Every product and sum is
// rounded to float32, in the same order as in ggml.

constexpr std::size_t kBlock = 32;  // number of values in a block of Q4_0 to Q8_0
/// Number of values in a block of the K types. A block is divided into sub-blocks of 16 or 32 values, each
/// with its own scale.
constexpr std::size_t kSuperBlock = 256;

float half_at(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return float_from_f16(bits);
}

int byte_at(const std::byte* at) {
  return std::to_integer<int>(*at);
}

int signed_at(const std::byte* at) {
  return static_cast<std::int8_t>(std::to_integer<std::uint8_t>(*at));
}

int low(const std::byte* at) {
  return byte_at(at) & 0xF;
}
int high(const std::byte* at) {
  return byte_at(at) >> 4;
}

float scaled(float scale, int value) {
  return scale * static_cast<float>(value);
}

/// Decodes a block of Q4_0, Q4_1, Q5_0 or Q5_1. The block has a scale, a minimum if kMinimum is true, the
/// fifth bit of each value if kFive is true, and the low four bits of each value in 16 bytes. The low halves
/// of these bytes hold the first 16 values and the high halves the last 16. If kMinimum is false, values are
/// centred on 0.
template <bool kFive, bool kMinimum>
void decode_small(const std::byte* block, float* values) {
  constexpr int kCentre = kMinimum ? 0 : kFive ? 16 : 8;
  const float scale = half_at(block);
  const float minimum = kMinimum ? half_at(block + 2) : 0;
  const std::byte* packed = block + (kMinimum ? 4 : 2);
  std::uint32_t fifth = 0;  // bit i is the fifth bit of value i
  if (kFive) {
    std::memcpy(&fifth, packed, sizeof fifth);
    packed += sizeof fifth;
  }
  const auto value = [&](int bits, std::size_t i) {
    const int whole = bits | static_cast<int>((fifth >> i) & 1U) << 4;
    const float product = scaled(scale, whole - kCentre);
    return kMinimum ? product + minimum : product;  // without a minimum, adding 0 would change -0 to 0
  };
  for (std::size_t i = 0; i < kBlock / 2; ++i) {
    values[i] = value(low(packed + i), i);
    values[i + kBlock / 2] = value(high(packed + i), i + kBlock / 2);
  }
}

void decode_q8_0(const std::byte* block, float* values) {
  const float scale = half_at(block);
  for (std::size_t i = 0; i < kBlock; ++i) values[i] = scaled(scale, signed_at(block + 2 + i));
}

/// The scale and minimum of a sub-block of Q4_K or Q5_K. A stored integer q has the value scale * q -
/// minimum.
struct ScaledBlock {
  float scale;
  float minimum;
};

/// Returns the scale and minimum of sub-block `part` (0 to 7). Each has six bits. They are packed into 12
/// bytes after the two float16 numbers at the beginning of the block.
ScaledBlock scaled_block(const std::byte* block, std::size_t part) {
  const std::byte* packed = block + 4;
  int scale = 0;
  int minimum = 0;
  if (part < 4) {
    scale = byte_at(packed + part) & 63;
    minimum = byte_at(packed + part + 4) & 63;
  } else {
    scale = low(packed + part + 4) | (byte_at(packed + part - 4) >> 6) << 4;
    minimum = high(packed + part + 4) | (byte_at(packed + part) >> 6) << 4;
  }
  return {scaled(half_at(block), scale), scaled(half_at(block + 2), minimum)};
}

constexpr std::size_t kScalesBytes = 16;  // number of bytes before the values in a block of Q4_K or Q5_K

/// Decodes a block of Q4_K, or of Q5_K if kFive is true. In Q5_K, the fifth bit of value i of sub-block
/// `part` is bit `part` of byte i.
template <bool kFive>
void decode_k(const std::byte* block, float* values) {
  const std::byte* fifth = block + kScalesBytes;
  for (std::size_t part = 0; part < 8; ++part) {
    const auto [scale, minimum] = scaled_block(block, part);
    const std::byte* packed = block + kScalesBytes + (kFive ? 32 : 0) + part / 2 * 32;
    for (std::size_t i = 0; i < 32; ++i) {
      int value = part % 2 == 0 ? low(packed + i) : high(packed + i);
      if (kFive) value += ((byte_at(fifth + i) >> part) & 1) << 4;
      values[32 * part + i] = scaled(scale, value) - minimum;
    }
  }
}

/// Decodes a block of Q6_K. The block has two halves of 128 values, and a half has four groups of 32 values.
/// Each 16 consecutive values share a scale.
void decode_q6_k(const std::byte* block, float* values) {
  const float whole = half_at(block + 208);
  for (std::size_t half = 0; half < 2; ++half) {
    const std::byte* four = block + 64 * half;
    const std::byte* two = block + 128 + 32 * half;
    const std::byte* scales = block + 192 + 8 * half;
    for (std::size_t run = 0; run < 4; ++run) {
      for (std::size_t i = 0; i < 32; ++i) {
        const std::byte* at = four + 32 * (run % 2) + i;
        const int bits = (run < 2 ? low(at) : high(at)) | ((byte_at(two + i) >> (2 * run)) & 3) << 4;
        const float scale = scaled(whole, signed_at(scales + 2 * run + i / 16));
        values[128 * half + 32 * run + i] = scaled(scale, bits - 32);
      }
    }
  }
}

constexpr std::array kGgmlTypes = {
    GgmlType{0, "F32", 1, 4, DType::f32},
    GgmlType{1, "F16", 1, 2, DType::f16},
    GgmlType{30, "BF16", 1, 2, DType::bf16},
    GgmlType{2, "Q4_0", kBlock, 18, DType::f32, decode_small<false, false>},
    GgmlType{3, "Q4_1", kBlock, 20, DType::f32, decode_small<false, true>},
    GgmlType{6, "Q5_0", kBlock, 22, DType::f32, decode_small<true, false>},
    GgmlType{7, "Q5_1", kBlock, 24, DType::f32, decode_small<true, true>},
    GgmlType{8, "Q8_0", kBlock, 34, DType::f32, decode_q8_0},
    GgmlType{12, "Q4_K", kSuperBlock, 144, DType::f32, decode_k<false>},
    GgmlType{13, "Q5_K", kSuperBlock, 176, DType::f32, decode_k<true>},
    GgmlType{14, "Q6_K", kSuperBlock, 210, DType::f32, decode_q6_k},
};

/// Numbers and names of unsupported types. ggml itself has removed some of these types.
constexpr std::pair<std::uint32_t, std::string_view> kUnsupportedTypes[] = {
    {4, "Q4_2"},        {5, "Q4_3"},        {9, "Q8_1"},        {10, "Q2_K"},    {11, "Q3_K"},
    {15, "Q8_K"},       {16, "IQ2_XXS"},    {17, "IQ2_XS"},     {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {20, "IQ4_NL"},     {21, "IQ3_S"},      {22, "IQ2_S"},      {23, "IQ4_XS"},  {24, "I8"},
    {25, "I16"},        {26, "I32"},        {27, "I64"},        {28, "F64"},     {29, "IQ1_M"},
    {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},   {33, "Q4_0_8_8"},   {34, "TQ1_0"},   {35, "TQ2_0"},
    {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}, {39, "MXFP4"}};

}  // namespace

const GgmlType& ggml_type(std::uint32_t id, std::string_view file, std::string_view what) {
  std::string supported;
  for (const GgmlType& type : kGgmlTypes) {
    if (type.id == id) return type;
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", type.name);
  }
  std::string name = fmt::format("number {}", id);
  for (const auto& [number, known] : kUnsupportedTypes) {
    if (number == id) name = known;
  }
  refuse(file, "{}: unsupported type {}; supported: {}", what, name, supported);
}

}  // namespace attnctl::checkpoint

#include "base/dtype.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attnctl {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored in little-endian order");

struct DTypeRow {
  std::string_view name;
  std::size_t size;
  bool floating;
};

// Indexed by DType.
constexpr std::array<DTypeRow, 13> kRows = {{
    {"F64", 8, true},
    {"F32", 4, true},
    {"F16", 2, true},
    {"BF16", 2, true},
    {"I64", 8, false},
    {"I32", 4, false},
    {"I16", 2, false},
    {"I8", 1, false},
    {"U64", 8, false},
    {"U32", 4, false},
    {"U16", 2, false},
    {"U8", 1, false},
    {"BOOL", 1, false},
}};

const DTypeRow& row_of(DType dtype) {
  return kRows.at(static_cast<std::size_t>(dtype));
}

/// Returns a mask with all bits set if `condition` is true, otherwise 0.
constexpr std::uint32_t mask(bool condition) {
  return 0U - static_cast<std::uint32_t>(condition);
}

/// Converts a half to the bits of a float. Has no branches, so that the compiler vectorises the loop of
/// convert_each(). A subnormal half is a normal float: its fraction is combined with the exponent of 2^-14,
/// then 2^-14 is subtracted, which is exact.
constexpr std::uint32_t f32_bits_from_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7FFFU;
  const std::uint32_t shifted = magnitude << 13;
  const auto subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + (113U << 23)) - 0x1p-14F);
  const std::uint32_t normal = shifted + (112U << 23);
  const std::uint32_t is_subnormal = mask(magnitude < 0x0400U);
  const std::uint32_t special = mask(magnitude >= 0x7C00U) & 0x7F800000U;
  return sign | (subnormal & is_subnormal) | (normal & ~is_subnormal) | special;
}

constexpr std::uint32_t f32_bits_from_bf16(std::uint16_t bits) {
  return static_cast<std::uint32_t>(bits) << 16;
}

template <typename Stored, typename Out, typename Function>
void convert_each(std::span<const std::byte> bytes, std::span<Out> out, Function function) {
  const std::byte* in = bytes.data();
  Out* to = out.data();
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, in + i * sizeof(Stored), sizeof(Stored));
    to[i] = function(stored);
  }
}

template <typename Stored, typename Out>
void convert_plain(std::span<const std::byte> bytes, std::span<Out> out) {
  if constexpr (std::is_same_v<Stored, Out>) {
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size_bytes());
  } else {
    convert_each<Stored>(bytes, out, [](Stored stored) { return static_cast<Out>(stored); });
  }
}

template <std::uint32_t (*bits_of)(std::uint16_t), typename Out>
void convert_half(std::span<const std::byte> bytes, std::span<Out> out) {
  convert_each<std::uint16_t>(bytes, out, [](std::uint16_t stored) {
    return static_cast<Out>(std::bit_cast<float>(bits_of(stored)));
  });
}

template <typename Out>
void convert_boolean(std::span<const std::byte> bytes, std::span<Out> out) {
  convert_each<std::uint8_t>(bytes, out, [](std::uint8_t b) { return b == 0 ? Out{0} : Out{1}; });
}

// Indexed by DType.
template <typename Out>
constexpr std::array<void (*)(std::span<const std::byte>, std::span<Out>), kRows.size()> kConverters = {
    convert_plain<double, Out>,
    convert_plain<float, Out>,
    convert_half<f32_bits_from_f16, Out>,
    convert_half<f32_bits_from_bf16, Out>,
    convert_plain<std::int64_t, Out>,
    convert_plain<std::int32_t, Out>,
    convert_plain<std::int16_t, Out>,
    convert_plain<std::int8_t, Out>,
    convert_plain<std::uint64_t, Out>,
    convert_plain<std::uint32_t, Out>,
    convert_plain<std::uint16_t, Out>,
    convert_plain<std::uint8_t, Out>,
    convert_boolean<Out>};

template <typename Out>
void convert_any(DType dtype, std::span<const std::byte> bytes, std::span<Out> out) {
  if (bytes.size() / size_of(dtype) < out.size()) throw std::length_error("convert: too few bytes");
  kConverters<Out>[static_cast<std::size_t>(dtype)](bytes, out);
}

}  // namespace

std::size_t size_of(DType dtype) {
  return row_of(dtype).size;
}
std::string_view name_of(DType dtype) {
  return row_of(dtype).name;
}
bool is_floating(DType dtype) {
  return row_of(dtype).floating;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

float float_from_f16(std::uint16_t bits) {
  return std::bit_cast<float>(f32_bits_from_f16(bits));
}
float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(f32_bits_from_bf16(bits));
}

void convert(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  convert_any(dtype, bytes, out);
}
void convert(DType dtype, std::span<const std::byte> bytes, std::span<double> out) {
  convert_any(dtype, bytes, out);
}

}  // namespace attnctl

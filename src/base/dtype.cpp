#include "base/dtype.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/half.hpp"

namespace attnctl {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored in little-endian order");

template <typename Stored, auto value_of, typename Out>
void convert_each(std::span<const std::byte> bytes, std::span<Out> out) {
  if constexpr (std::is_same_v<Stored, Out>) {
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size_bytes());
  } else {
    const std::byte* in = bytes.data();
    Out* to = out.data();
    for (std::size_t i = 0; i < out.size(); ++i) {
      Stored stored;
      std::memcpy(&stored, in + i * sizeof(Stored), sizeof(Stored));
      to[i] = static_cast<Out>(value_of(stored));
    }
  }
}

constexpr auto kItself = [](auto stored) { return stored; };
constexpr auto kValueOfF16 = [](std::uint16_t bits) { return float_of_half(bits); };
constexpr auto kValueOfBf16 = [](std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
};
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr auto kValueOfE4m3 = [](std::uint8_t bits) {
  const std::uint32_t exponent = bits >> 3U & 15U;
  const auto fraction = static_cast<float>(bits & 7U);
  const float size = (bits & 0x7FU) == 0x7FU ? kNaN
                     : exponent == 0         ? fraction * 0x1p-9F
                                     : (8 + fraction) * std::bit_cast<float>((exponent + 117U) << 23U);
  return (bits & 0x80U) != 0 ? -size : size;
};
constexpr auto kValueOfE5m2 = [](std::uint8_t bits) {
  return float_of_half(static_cast<std::uint16_t>(bits << 8U));
};
constexpr auto kValueOfE8m0 = [](std::uint8_t bits) {
  if (bits == 255) return kNaN;
  return std::bit_cast<float>(bits == 0 ? 0x00400000U : static_cast<std::uint32_t>(bits) << 23U);
};
constexpr auto kIsNotZero = [](std::uint8_t stored) { return stored != 0; };

struct DTypeRow {
  std::string_view name;
  std::size_t size;
  bool floating;
  void (*to_float)(std::span<const std::byte>, std::span<float>);
  void (*to_double)(std::span<const std::byte>, std::span<double>);
};

/// Returns the row of a type whose elements are stored as `Stored` and have the value value_of(element).
template <typename Stored, auto value_of = kItself>
constexpr DTypeRow row(std::string_view name) {
  return {name, sizeof(Stored), std::is_floating_point_v<decltype(value_of(Stored{}))>,
          convert_each<Stored, value_of, float>, convert_each<Stored, value_of, double>};
}

// Indexed by DType.
constexpr std::array<DTypeRow, 16> kRows = {
    row<double>("F64"),
    row<float>("F32"),
    row<std::uint16_t, kValueOfF16>("F16"),
    row<std::uint16_t, kValueOfBf16>("BF16"),
    row<std::int64_t>("I64"),
    row<std::int32_t>("I32"),
    row<std::int16_t>("I16"),
    row<std::int8_t>("I8"),
    row<std::uint64_t>("U64"),
    row<std::uint32_t>("U32"),
    row<std::uint16_t>("U16"),
    row<std::uint8_t>("U8"),
    row<std::uint8_t, kIsNotZero>("BOOL"),
    row<std::uint8_t, kValueOfE4m3>("F8_E4M3"),
    row<std::uint8_t, kValueOfE5m2>("F8_E5M2"),
    row<std::uint8_t, kValueOfE8m0>("F8_E8M0"),
};

const DTypeRow& row_of(DType dtype) {
  return kRows.at(static_cast<std::size_t>(dtype));
}

const DTypeRow& checked_row(DType dtype, std::size_t bytes, std::size_t elements) {
  if (bytes / size_of(dtype) < elements) throw std::length_error("convert: too few bytes");
  return row_of(dtype);
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
  return float_of_half(bits);
}

void convert(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  checked_row(dtype, bytes.size(), out.size()).to_float(bytes, out);
}
void convert(DType dtype, std::span<const std::byte> bytes, std::span<double> out) {
  checked_row(dtype, bytes.size(), out.size()).to_double(bytes, out);
}

}  // namespace attnctl

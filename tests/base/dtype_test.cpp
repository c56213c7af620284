#include "base/dtype.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/bytes.hpp"

using namespace attnctl;

namespace {

/// Converts IEEE 754 binary16 by its definition.
double half_by_definition(unsigned bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const unsigned exponent = bits >> 10 & 0x1FU;
  const unsigned fraction = bits & 0x3FFU;
  if (exponent == 31) return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (exponent == 0) return sign * std::ldexp(static_cast<double>(fraction), -24);
  return sign * std::ldexp(static_cast<double>(fraction + 1024), static_cast<int>(exponent) - 25);
}

std::span<const std::byte> view(const std::string& bytes) {
  return std::as_bytes(std::span(bytes));
}

template <typename Number>
void check_convert(DType dtype, const std::vector<Number>& stored, const std::vector<double>& want) {
  CAPTURE(name_of(dtype));
  REQUIRE(sizeof(Number) == size_of(dtype));
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const std::string bytes = std::string(shift, '?') + test::bytes_of(stored);
    std::vector<double> wide(want.size());
    std::vector<float> narrow(want.size());
    convert(dtype, view(bytes).subspan(shift), std::span(wide));
    convert(dtype, view(bytes).subspan(shift), std::span(narrow));
    for (std::size_t i = 0; i < want.size(); ++i) {
      CAPTURE(i);
      CHECK(wide[i] == want[i]);
      CHECK(narrow[i] == static_cast<float>(want[i]));
    }
  }
}

}  // namespace

TEST_CASE("kind 120: every half converts as defined and keeps NaN payloads") {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> bulk(all.size());
  convert(DType::f16, std::as_bytes(std::span(all)), std::span(bulk));
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const double want = half_by_definition(static_cast<unsigned>(i));
    const auto bits = std::bit_cast<std::uint32_t>(bulk[i]);
    REQUIRE(bits == std::bit_cast<std::uint32_t>(float_from_f16(all[i])));
    if (std::isnan(want)) {
      REQUIRE(bits == ((i & 0x8000U) << 16 | 0x7F800000U | (i & 0x3FFU) << 13));
    } else {
      REQUIRE(static_cast<double>(bulk[i]) == want);
      REQUIRE(std::signbit(bulk[i]) == std::signbit(want));
    }
  }
  CHECK(float_from_f16(0x3C00) == 1.0F);
  CHECK(float_from_f16(0x0001) == 0x1p-24F);
  CHECK(float_from_f16(0x7BFF) == 65504.0F);
}

TEST_CASE("kind 120: every bfloat16 is the upper half of its float") {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> bulk(all.size());
  convert(DType::bf16, std::as_bytes(std::span(all)), std::span(bulk));
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::bit_cast<std::uint32_t>(bulk[i]) == i << 16);
  }
}

TEST_CASE("elements of every type convert to float and double at any alignment") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  check_convert<double>(DType::f64, {1.0 / 3, -0.0, 1e300, -inf, 5e-324, 16777217.0},
                        {1.0 / 3, -0.0, 1e300, -inf, 5e-324, 16777217.0});
  check_convert<float>(DType::f32, {0.1F, -1e-45F, 3e38F}, {0.1F, -1e-45F, 3e38F});
  check_convert<std::int64_t>(DType::i64, {INT64_MIN, -1, INT64_MAX, (1LL << 53) + 1},
                              {-0x1p63, -1, 0x1p63, 0x1p53});
  check_convert<std::int32_t>(DType::i32, {INT32_MIN, 0, INT32_MAX}, {-2147483648.0, 0, 2147483647.0});
  check_convert<std::int16_t>(DType::i16, {-32768, 5, 32767}, {-32768, 5, 32767});
  check_convert<std::int8_t>(DType::i8, {-128, -1, 127}, {-128, -1, 127});
  check_convert<std::uint64_t>(DType::u64, {0, UINT64_MAX}, {0, 0x1p64});
  check_convert<std::uint32_t>(DType::u32, {0, UINT32_MAX}, {0, 4294967295.0});
  check_convert<std::uint16_t>(DType::u16, {0, 65535}, {0, 65535});
  check_convert<std::uint8_t>(DType::u8, {0, 200, 255}, {0, 200, 255});
  check_convert<std::uint8_t>(DType::boolean, {0, 1, 2, 255}, {0, 1, 1, 1});
}

TEST_CASE("convert ignores extra bytes and throws if bytes are missing") {
  const std::string bytes = test::bytes_of<float>({1, 2, 3});
  std::vector<float> two(2);
  convert(DType::f32, view(bytes), std::span(two));
  CHECK(two == std::vector<float>{1, 2});
  std::vector<float> four(4);
  CHECK_THROWS_AS(convert(DType::f32, view(bytes), std::span(four)), std::length_error);
  CHECK_NOTHROW(convert(DType::f32, {}, std::span<float>()));
}

TEST_CASE("dtypes and shapes have the names of safetensors") {
  CHECK(name_of(DType::f64) == "F64");
  CHECK(name_of(DType::bf16) == "BF16");
  CHECK(name_of(DType::boolean) == "BOOL");
  CHECK(is_floating(DType::f16));
  CHECK_FALSE(is_floating(DType::i8));
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(Shape{2, 3}) == "[2, 3]");
}

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "report/writers.hpp"

using attnctl::report::NumberFormat;

namespace {

template <typename T>
std::string text_of(const NumberFormat& format, T value) {
  std::string text;
  format.append(text, value);
  return text;
}

/// Returns floats of every kind: the limits of each class, then random bit patterns.
std::vector<float> floats_of_every_kind() {
  using limits = std::numeric_limits<float>;
  std::vector<float> values{0.0F,
                            -0.0F,
                            1.0F,
                            -1.0F,
                            0.1F,
                            1.0F / 3.0F,
                            limits::min(),
                            limits::max(),
                            limits::lowest(),
                            limits::denorm_min(),
                            std::nextafter(limits::min(), 0.0F),
                            limits::epsilon(),
                            16777216.0F,
                            1e-5F,
                            1e10F};
  std::mt19937 random(11);
  while (values.size() < 20000) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

}  // namespace

TEST_CASE("numbers are written shortest by default") {
  struct Row {
    float value;
    const char* want;
  };
  for (const Row& row : {Row{0.1F, "0.1"}, Row{0.1234567F, "0.1234567"}, Row{1.0F, "1"}, Row{0.0F, "0"},
                         Row{-0.0F, "-0.0"}, Row{16777216.0F, "16777216"}, Row{1e-10F, "1e-10"},
                         Row{std::numeric_limits<float>::denorm_min(), "1e-45"},
                         Row{std::numeric_limits<float>::max(), "3.4028235e+38"}}) {
    CHECK(text_of({}, row.value) == row.want);
  }
  CHECK(text_of({}, 0.1) == "0.1");
  CHECK(text_of({}, static_cast<double>(0.1F)) == "0.10000000149011612");
  CHECK(text_of({}, -0.0) == "-0.0");
  CHECK(text_of({}, std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
}

TEST_CASE("the shortest text reads back to the same bits") {
  for (const float value : floats_of_every_kind()) {
    const std::string text = text_of({}, value);
    CAPTURE(text);
    CHECK(std::bit_cast<std::uint32_t>(std::strtof(text.c_str(), nullptr)) ==
          std::bit_cast<std::uint32_t>(value));
  }
  std::mt19937_64 random(12);
  for (int i = 0; i < 20000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const std::string text = text_of({}, value);
    CAPTURE(text);
    CHECK(std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr)) ==
          std::bit_cast<std::uint64_t>(value));
  }
}

TEST_CASE("fixed decimals equal those of printf") {
  for (int digits = 0; digits <= NumberFormat::kMostDigits; ++digits) {
    std::size_t step = 0;
    for (const float value : floats_of_every_kind()) {
      if (++step % 8 != 1 && step > 16) continue;
      char want[400];
      std::snprintf(want, sizeof want, "%.*f", digits, static_cast<double>(value));
      REQUIRE(text_of({digits}, value) == want);
      REQUIRE(text_of({digits}, static_cast<double>(value)) == want);
    }
    for (const float tie :
         {0.5F, 1.5F, 2.5F, 0.125F, 0.375F, -0.0625F, 99999999.0F, 0.99999999F, 100000000.0F}) {
      char want[400];
      std::snprintf(want, sizeof want, "%.*f", digits, static_cast<double>(tie));
      CHECK(text_of({digits}, tie) == want);
    }
  }
  CHECK(text_of({2}, std::int64_t{5}) == "5");
}

TEST_CASE("the longest number fits its buffer") {
  CHECK(text_of({NumberFormat::kMostDigits}, std::numeric_limits<double>::lowest()).size() <=
        NumberFormat::kMostCharacters);
}

using attnctl::report::kShortestFloatSpace;
using attnctl::report::write_shortest_float;

namespace {

constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr std::uint32_t kHiddenBit = 0x00800000;
constexpr std::uint32_t kSignBit = 0x80000000;

/// Returns true if the float with these bits is written as by std::to_chars, within the space that
/// write_shortest_float() may overwrite.
bool is_as_to_chars(std::uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  constexpr int canary = 8;
  char text[kShortestFloatSpace + canary];
  std::fill(std::begin(text), std::end(text), '#');
  const char* end = write_shortest_float(text, value);
  char want[64];
  const char* want_end = std::to_chars(want, want + sizeof want, value).ptr;
  return std::string_view(text, end) == std::string_view(want, want_end) &&
         std::string_view(text + kShortestFloatSpace, canary) == "########";
}

void require_as_to_chars(std::uint32_t bits) {
  CAPTURE(bits);
  REQUIRE(is_as_to_chars(bits));
}

}  // namespace

TEST_CASE("floats of every exponent are written as std::to_chars writes them") {
  std::mt19937 random(21);
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    const std::uint32_t first = exponent * kHiddenBit;
    for (std::uint32_t i = 0; i < 64; ++i) {
      require_as_to_chars(first + i);  // powers of two and the floats after them
      require_as_to_chars(first + kHiddenBit - 1 - i);
      require_as_to_chars(first + kHiddenBit / 2 + i - 32);
      require_as_to_chars(kSignBit + first + i);
    }
    for (std::uint32_t bit = 1; bit < kHiddenBit; bit *= 2) {
      require_as_to_chars(first + bit);
      require_as_to_chars(first + kHiddenBit - bit);
    }
    for (int i = 0; i < 1000; ++i) require_as_to_chars(first + random() % kHiddenBit);
  }
}

TEST_CASE("floats next to short decimals are written as std::to_chars writes them") {
  std::mt19937 random(22);
  for (int exponent = -46; exponent <= 38; ++exponent) {
    for (double power = 1; power < 1e9; power *= 10) {
      for (int i = 0; i < 40; ++i) {
        const double digits = std::floor(power * (1 + static_cast<double>(random() % 9000) / 1000));
        const auto nearest = static_cast<float>(digits * std::pow(10.0, exponent));
        if (!std::isfinite(nearest)) continue;
        const auto bits = std::bit_cast<std::uint32_t>(nearest);
        require_as_to_chars(bits);
        require_as_to_chars(bits + 1 < kInfinity ? bits + 1 : bits);
        require_as_to_chars(bits > 0 ? bits - 1 : bits);
      }
    }
  }
}

TEST_CASE("whole numbers, halves and eighths are written as std::to_chars writes them") {
  for (int i = 0; i < 200000; ++i) {
    for (const float part : {1.0F, 0.5F, 0.125F, 64.0F, 1e6F}) {
      require_as_to_chars(std::bit_cast<std::uint32_t>(static_cast<float>(i) * part));
    }
  }
}

// Run with attnctl_tests --no-skip --test-case="all floats*". Takes about four minutes on one core.
TEST_CASE("all floats are written as std::to_chars writes them" * doctest::skip()) {
  std::vector<std::uint64_t> differ(std::thread::hardware_concurrency() + 1);
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < differ.size(); ++worker) {
    threads.emplace_back([&, worker] {
      for (std::uint64_t bits = worker; bits < kInfinity; bits += differ.size()) {
        const auto positive = static_cast<std::uint32_t>(bits);
        differ[worker] +=
            (is_as_to_chars(positive) ? 0U : 1U) + (is_as_to_chars(kSignBit | positive) ? 0U : 1U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::uint64_t count : differ) CHECK(count == 0);
}

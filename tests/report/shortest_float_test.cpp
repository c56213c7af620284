#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "report/number_format.hpp"

using attnctl::kShortestFloatSpace;
using attnctl::write_shortest_float;

namespace {

constexpr std::uint32_t infinity = 0x7F800000;
constexpr std::uint32_t hidden_bit = 0x00800000;
constexpr std::uint32_t sign_bit = 0x80000000;

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
    const std::uint32_t first = exponent * hidden_bit;
    for (std::uint32_t i = 0; i < 64; ++i) {
      require_as_to_chars(first + i);  // powers of two and the floats after them
      require_as_to_chars(first + hidden_bit - 1 - i);
      require_as_to_chars(first + hidden_bit / 2 + i - 32);
      require_as_to_chars(sign_bit + first + i);
    }
    for (std::uint32_t bit = 1; bit < hidden_bit; bit *= 2) {
      require_as_to_chars(first + bit);
      require_as_to_chars(first + hidden_bit - bit);
    }
    for (int i = 0; i < 1000; ++i) require_as_to_chars(first + random() % hidden_bit);
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
        require_as_to_chars(bits + 1 < infinity ? bits + 1 : bits);
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
      for (std::uint64_t bits = worker; bits < infinity; bits += differ.size()) {
        const auto positive = static_cast<std::uint32_t>(bits);
        differ[worker] +=
            (is_as_to_chars(positive) ? 0U : 1U) + (is_as_to_chars(sign_bit | positive) ? 0U : 1U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::uint64_t count : differ) CHECK(count == 0);
}

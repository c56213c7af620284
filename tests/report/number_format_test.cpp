#include "report/number_format.hpp"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

using attnctl::NumberFormat;

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

TEST_CASE("fixed decimals are those of printf") {
  for (int digits = 0; digits <= NumberFormat::most_digits; ++digits) {
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
  CHECK(text_of({NumberFormat::most_digits}, std::numeric_limits<double>::lowest()).size() <=
        NumberFormat::most_characters);
}

#include "base/undefined.hpp"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using attnctl::is_non_finite;
using attnctl::is_undefined;
using attnctl::kUndefined;

TEST_CASE("the undefined number is a NaN that survives float, a copy and a sign") {
  const volatile double stored = kUndefined;
  const auto narrow = static_cast<float>(stored);
  CHECK(std::isnan(kUndefined));
  CHECK(is_undefined(static_cast<double>(stored)));
  CHECK(is_undefined(narrow));
  CHECK(is_undefined(-narrow));
  CHECK(is_undefined(static_cast<double>(narrow)));
  CHECK(!is_non_finite(kUndefined));
  CHECK(!is_non_finite(narrow));
}

TEST_CASE("NaN of arithmetic and of files is not the undefined number") {
  const volatile double zero = 0;
  const volatile float infinity = std::numeric_limits<float>::infinity();
  CHECK(is_non_finite(zero / zero));
  CHECK(is_non_finite(infinity - infinity));
  CHECK(is_non_finite(static_cast<float>(infinity)));
  CHECK(is_non_finite(std::numeric_limits<double>::quiet_NaN()));
  CHECK(is_non_finite(-std::numeric_limits<float>::quiet_NaN()));
  CHECK(is_non_finite(std::numeric_limits<float>::signaling_NaN()));
  CHECK(!is_non_finite(1.0));
  CHECK(!is_undefined(0.0F));
}

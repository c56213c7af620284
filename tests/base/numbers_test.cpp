#include "base/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

using attnctl::ExactSum;

namespace {

double sum_of(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum.value();
}

}  // namespace

TEST_CASE("an exact sum keeps terms that doubles would lose") {
  struct Row {
    std::vector<double> terms;
    double want;
    const char* why;
  };
  for (const Row& row : {
           Row{{}, 0.0, "nothing"},
           Row{{0x1p61, 1.0, -0x1p61}, 1.0, "a double drops the 1"},
           Row{{0x1p-64, 0x1p53, -0x1p53}, 0x1p-64, "the smallest step next to a large term"},
           Row{{-1.5, 0.25}, -1.25, "negative"},
           Row{{0x1p-65}, 0.0, "half a step rounds to even"},
           Row{{0x1.8p-64}, 0x1p-63, "one and a half steps round to even"},
           Row{{-0x1.8p-64}, -0x1p-63, "the same below zero"},
           Row{{std::numeric_limits<double>::denorm_min()}, 0.0, "far below a step"},
       }) {
    CAPTURE(row.why);
    CHECK(sum_of(row.terms) == row.want);
  }
}

TEST_CASE("each term is rounded once, to the nearest step") {
  __extension__ using Fixed = __int128;
  __extension__ using Bits = unsigned __int128;
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    const double size = std::ldexp(1.0, static_cast<int>(random() % 140) - 78);  // below 2^62
    const double term = (static_cast<double>(random()) * 0x1p-63 - 1) * size;
    const auto want = static_cast<Bits>(static_cast<Fixed>(std::nearbyint(term * 0x1p64)));
    ExactSum sum;
    sum.add(term);
    const auto words = sum.words();
    REQUIRE((static_cast<Bits>(words[1]) << 64U | words[0]) == want);
  }
}

TEST_CASE("an exact sum does not depend on the order or the partition of its terms") {
  std::mt19937_64 random(7);
  std::vector<double> terms(1000);
  for (double& term : terms) term = static_cast<double>(random()) * 0x1p-64 - 0.25;
  const double forward = sum_of(terms);
  std::ranges::reverse(terms);
  CHECK(sum_of(terms) == forward);
  ExactSum left;
  ExactSum right;
  for (std::size_t i = 0; i < terms.size(); ++i) (i % 3 == 0 ? left : right).add(terms[i]);
  left.merge(right);
  CHECK(left.value() == forward);
}

TEST_CASE("an exact sum throws if a term or the sum does not fit") {
  ExactSum sum;
  for (const double term :
       {0x1p62, -0x1p62, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    CAPTURE(term);
    CHECK_THROWS_AS(sum.add(term), std::domain_error);
  }
  CHECK(sum.value() == 0.0);
  sum.add(0x1.fp61);
  sum.add(0x1.fp61);
  CHECK_THROWS_AS(sum.add(0x1.fp61), std::overflow_error);
  const ExactSum half = sum;
  CHECK_THROWS_AS(sum.merge(half), std::overflow_error);
  CHECK(sum.value() == half.value());
  const ExactSum lowest = ExactSum::from_words({0, std::uint64_t{1} << 63U});
  sum.merge(lowest);
  CHECK(sum.value() == half.value() - 0x1p63);
  CHECK_THROWS_AS(sum.merge(lowest), std::overflow_error);
}

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

namespace attnctl {
namespace {

TEST_CASE("equal seeds give equal numbers, other seeds and streams differ") {
  Random a(7);
  Random b(7);
  Random other_seed(8);
  Random other_stream(7, 1);
  std::size_t equal_seed = 0;
  std::size_t equal_stream = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = a.next();
    CHECK(value == b.next());
    equal_seed += value == other_seed.next() ? 1 : 0;
    equal_stream += value == other_stream.next() ? 1 : 0;
  }
  CHECK(equal_seed == 0);
  CHECK(equal_stream == 0);
}

TEST_CASE("moments of the distributions") {
  constexpr int count = 1 << 20;
  Random random(0);
  double uniform = 0;
  double sum = 0;
  double square = 0;
  double fourth = 0;
  for (int i = 0; i < count; ++i) {
    const double u = random.uniform();
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    uniform += u;
    const double x = random.normal();
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
  }
  // The sample means are within five standard deviations of the expected values.
  CHECK(std::abs(uniform / count - 0.5) < 5 * 0.2887 / 1024);
  CHECK(std::abs(sum / count) < 5.0 / 1024);
  CHECK(std::abs(square / count - 1) < 5 * 1.4143 / 1024);
  CHECK(std::abs(fourth / count - 3) < 5 * 9.798 / 1024);
}

}  // namespace
}  // namespace attnctl

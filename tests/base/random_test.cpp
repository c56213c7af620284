#include "base/random.hpp"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

namespace attnctl {
namespace {

TEST_CASE("equal seeds give equal numbers; other seeds and streams differ") {
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

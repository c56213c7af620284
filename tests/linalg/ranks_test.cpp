#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "linalg/decompositions.hpp"

namespace attnctl::linalg {
namespace {

TEST_CASE("effective and stable rank equal their definitions on known spectra") {
  struct Row {
    std::vector<double> s;
    double effective, stable;
    const char* why;
  };
  for (const Row& row :
       {Row{{1, 1, 1, 1}, 4.0, 4.0, "equal values: the full rank"}, Row{{5, 0, 0}, 1.0, 1.0, "one direction"},
        Row{{2, 1}, 3 / std::cbrt(4.0), 1.25, "exp(H(2/3, 1/3)) = 3 / 2^(2/3)"},
        Row{{1, 2}, 3 / std::cbrt(4.0), 1.25, "in any order"},
        Row{{1e300, 1e300}, 2.0, 2.0, "squares that overflow"},
        Row{{3e-310, 3e-310}, 2.0, 2.0, "subnormal values"}}) {
    CAPTURE(row.why);
    CHECK(effective_rank(row.s).value() == doctest::Approx(row.effective).epsilon(1e-12));
    CHECK(stable_rank(row.s).value() == doctest::Approx(row.stable).epsilon(1e-12));
  }
}

TEST_CASE("ranks of nothing are undefined") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& s : {std::vector<double>{}, {0, 0}, {1, nan}}) {
    CHECK_FALSE(effective_rank(s).has_value());
    CHECK_FALSE(stable_rank(s).has_value());
  }
  CHECK(numerical_rank(std::vector<double>{0, 0}, 2, 2) == 0);
  CHECK_FALSE(numerical_rank(std::vector<double>{1, nan}, 2, 2).has_value());
}

TEST_CASE("the numerical rank counts values above its tolerance") {
  const double eps = static_cast<double>(std::numeric_limits<float>::epsilon());
  const std::vector<double> s{2, 1, 2 * 100 * eps * 1.01, 2 * 100 * eps * 0.99, 0};
  CHECK(numerical_rank(s, 100, 5) == 3);
  CHECK(numerical_rank(s, 5, 100) == 3);
  CHECK(numerical_rank(s, 5, 5) == 4);
}

}  // namespace
}  // namespace attnctl::linalg

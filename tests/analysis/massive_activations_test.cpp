#include "analysis/mixing/massive_activations.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "base/numbers.hpp"

namespace attnctl::analysis {
namespace {

/// Returns the median of the magnitudes of sorted values.
double sorted_median(const OwnedMatrix<float>& values) {
  std::vector<double> sizes;
  for (std::size_t r = 0; r < values.rows(); ++r) {
    for (const float value : values.view().row(r)) sizes.push_back(std::abs(double{value}));
  }
  std::ranges::sort(sizes);
  return (sizes[(sizes.size() - 1) / 2] + sizes[sizes.size() / 2]) / 2;
}

TEST_CASE("the median of magnitudes is that of the sorted values") {
  Random random(5);
  for (const std::size_t columns : {1, 2, 3, 8, 129}) {
    for (const double scale : {0.0, 1e-42, 1e-3, 1.0, 1e30}) {
      CAPTURE(columns);
      CAPTURE(scale);
      OwnedMatrix<float> values(columns == 2 ? 1 : 7, columns);
      for (std::size_t r = 0; r < values.rows(); ++r) {
        for (float& value : values.view().row(r))
          value = static_cast<float>(scale * random.normal() * std::exp(3 * random.normal()));
      }
      CHECK(median_magnitude(values.view()) == sorted_median(values));
    }
  }
  OwnedMatrix<float> far(1, 4);  // the two values in the middle are in bins with empty bins between them
  std::ranges::copy(std::vector<float>{-1, 1000, 2, -3000}, far.values().begin());
  CHECK(median_magnitude(far.view()) == 501);
}

TEST_CASE("the median of magnitudes is NaN with a value that is not finite and undefined without values") {
  OwnedMatrix<float> values(2, 3);
  CHECK(median_magnitude(values.view()) == 0);
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    values(1, 2) = bad;
    CHECK(std::isnan(median_magnitude(values.view())));
    CHECK_FALSE(is_undefined(median_magnitude(values.view())));
  }
  CHECK(is_undefined(median_magnitude(OwnedMatrix<float>(0, 3).view())));
}

TEST_CASE("a value is massive above 100 and above 1000 times the median") {
  CHECK(is_massive(-100.5F, 0.1));
  CHECK_FALSE(is_massive(100, 0.01));
  CHECK_FALSE(is_massive(500, 0.5));
  CHECK(is_massive(500.5F, 0.5));
}

}  // namespace
}  // namespace attnctl::analysis

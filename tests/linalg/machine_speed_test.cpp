#include "linalg/machine_speed.hpp"

#include <cmath>
#include <stdexcept>

#include <doctest/doctest.h>

namespace attnctl {
namespace {

TEST_CASE("the measured speed is positive for any shape and number of workers") {
  for (const std::size_t threads : {std::size_t{1}, std::size_t{3}}) {
    CAPTURE(threads);
    Pool pool(threads);
    for (const GemmShape& shape : {GemmShape{1, 1, 1}, {2, 5, 7}, {7, 5, 2}, {33, 16, 33}}) {
      CAPTURE(shape.m);
      const double gflops = measure_sgemm(pool, shape, 1);
      CHECK(gflops > 0);
      CHECK(std::isfinite(gflops));
    }
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{24}, std::size_t{100'000}}) {
      CAPTURE(bytes);
      const double gbs = measure_read(pool, bytes, 2);
      CHECK(gbs > 0);
      CHECK(std::isfinite(gbs));
    }
    CHECK_THROWS_AS((void)measure_sgemm(pool, {4, 0, 4}, 1), std::logic_error);
  }
}

}  // namespace
}  // namespace attnctl

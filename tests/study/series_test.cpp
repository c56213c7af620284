#include "study/series.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace attnctl::test {
namespace {

using study::change_point;

TEST_CASE("the step of a checkpoint is the last number in its name") {
  CHECK(study::step_in_name("run/checkpoint-300") == 300);
  CHECK(study::step_in_name("run7/step12_0040/") == 40);
  CHECK(study::step_in_name("model.5.gguf") == 5);
  CHECK_FALSE(study::step_in_name("run7/final"));
  CHECK_FALSE(study::step_in_name("step99999999999999999999999"));
}

TEST_CASE("the change of a series is the split with the least squares, as by trying all splits") {
  const std::vector<double> step = {1, 1, 1, 5, 5};
  const auto found = change_point(step, 0);
  REQUIRE(found);
  CHECK(found->first == 3);
  CHECK(found->before == 1);
  CHECK(found->after == 5);
  CHECK(found->explained == doctest::Approx(1));
  // Of the 10 orders of these values, two have a perfect split: 1 1 1 5 5 and 5 5 1 1 1.
  CHECK(found->p_value == doctest::Approx(0.2).epsilon(0.2));

  const std::vector<double> values = {0.3, -0.1, 0.25, 0.9, 1.4, 1.1, 1.2, 0.8};
  double total = 0, mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) total += (value - mean) * (value - mean);
  double least = total;
  std::size_t where = 0;
  for (std::size_t k = 1; k < values.size(); ++k) {
    double rest = 0;
    for (const auto& [begin, end] : {std::pair(std::size_t{0}, k), std::pair(k, values.size())}) {
      double part = 0;
      for (std::size_t i = begin; i < end; ++i) part += values[i] / static_cast<double>(end - begin);
      for (std::size_t i = begin; i < end; ++i) rest += (values[i] - part) * (values[i] - part);
    }
    if (rest < least) {
      least = rest;
      where = k;
    }
  }
  const auto best = change_point(values, 0);
  REQUIRE(best);
  CHECK(best->first == where);
  CHECK(best->explained == doctest::Approx(1 - least / total));
  CHECK(best->p_value < 0.05);
}

TEST_CASE("equal values, and fewer than three, have no change") {
  CHECK_FALSE(change_point(std::vector<double>{2, 2, 2, 2}, 0));
  CHECK_FALSE(change_point(std::vector<double>{1, 2}, 0));
  CHECK_FALSE(change_point(std::vector<double>{}, 0));
}

}  // namespace
}  // namespace attnctl::test

#include "reference/reference.hpp"

#include <cmath>

#include <doctest/doctest.h>

#include "support/golden.hpp"

namespace {

using attnctl::OwnedMatrix;
using attnctl::test::Golden;
using attnctl::test::GoldenArray;

/// Returns the largest difference between part `index` of an array, along its first axes, and a matrix. Equal
/// infinities agree.
double difference(const GoldenArray& want, std::size_t index, const OwnedMatrix<double>& got) {
  const std::size_t size = got.values().size();
  REQUIRE(want.values.size() >= (index + 1) * size);
  double largest = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const double a = want.values[index * size + i];
    const double b = got.values()[i];
    if (a == b) continue;
    if (!(std::abs(a - b) <= largest)) largest = std::abs(a - b);  // keeps a NaN, which fails
  }
  return largest;
}

/// Checks that a golden array agrees, part by part, with a list of matrices. Skips a missing array.
struct Comparison {
  const Golden& golden;
  std::string number;
  double bound;

  void check(const std::string& name, const std::vector<const OwnedMatrix<double>*>& got) const {
    const std::string full = name + "_" + number;
    if (!golden.has(full)) return;
    CAPTURE(full);
    const GoldenArray want = golden.array(full);
    std::size_t total = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      CHECK(difference(want, i, *got[i]) <= bound);
      total += got[i]->values().size();
    }
    CHECK(want.values.size() == total);
  }
};

void check_input(const attnctl::model::Model& model, const Golden& golden, std::size_t input, double bound) {
  attnctl::Pool pool(2);
  const std::size_t last = model.config().layers.size() - 1;
  const bool logits = golden.has("logits_" + std::to_string(input));
  const auto pass = attnctl::reference::run_reference(model, golden.sequence(input), last, logits, pool);
  const Comparison comparison = {golden, std::to_string(input), bound};
  for (const attnctl::model::Component component : attnctl::test::components_of(model.config())) {
    std::vector<const OwnedMatrix<double>*> patterns;
    std::vector<const OwnedMatrix<double>*> scores;
    std::vector<const OwnedMatrix<double>*> zs;
    std::vector<const OwnedMatrix<double>*> outputs;
    for (std::size_t i = 0; i < pass.layers.size(); ++i) {
      if (model.config().layers[i].component != component) continue;
      const auto& layer = pass.layers[i];
      for (const auto& pattern : layer.pattern) patterns.push_back(&pattern);
      for (const auto& score : layer.scores) scores.push_back(&score);
      for (const auto& z : layer.z) zs.push_back(&z);
      outputs.push_back(&layer.output);
    }
    const std::string suffix = attnctl::test::component_suffix(component);
    comparison.check("pattern" + suffix, patterns);
    comparison.check("scores" + suffix, scores);
    comparison.check("z" + suffix, zs);
    comparison.check("output" + suffix, outputs);
  }
  if (logits) comparison.check("logits", {&pass.logits});
}

}  // namespace

// Bounds are twice the measured differences. The remaining differences come from the last digit of the stored
// arrays (32 bits of mantissa, except patterns) and, with rotary position, from the float32 cosines of two
// libraries.
TEST_CASE("the float64 pass agrees with transformers and with the definition on every golden model") {
  const auto cases = attnctl::test::golden_models();
  CHECK(cases.size() >= 30);
  for (const auto& directory : cases) {
    CAPTURE(directory.filename().string());
    attnctl::Warnings warnings;
    const attnctl::model::Model model = attnctl::test::bind_model(directory, warnings);
    const Golden golden(directory);
    REQUIRE(golden.inputs() > 0);
    const bool rotary = model.config().position_in_scores();
    for (std::size_t input = 0; input < golden.inputs(); ++input) {
      CAPTURE(input);
      check_input(model, golden, input, rotary ? 4e-6 : 1e-8);
    }
    CHECK(warnings.list().empty());
  }
}

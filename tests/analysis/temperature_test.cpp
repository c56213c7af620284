#include "analysis/patterns/temperature.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/capture.hpp"
#include "support/golden.hpp"
#include "support/long_way.hpp"
#include "support/memory_checkpoint.hpp"

namespace attnctl::analysis {
namespace {

std::vector<HeadTemperature> temperatures_of(const model::Model& model, const input::Batch& batch,
                                             double saturation) {
  const forward::Selection selection = forward::Selection::all(model.config());
  Temperatures temperatures(selection, saturation);
  forward::Observer* const observers[] = {&temperatures};
  Pool pool(2);
  Warnings warnings;
  forward::RunContext context{.pool = pool, .warnings = warnings, .panel_rows = 50};
  forward::run_forward(model, batch, selection, observers, context);
  return temperatures.finish(pool);
}

/// Uses scores of standard deviation s = 0.5, 1, 3: q = s g, k = g' with independent normal g, g'.
TEST_CASE("normal scores of deviation s have temperature 1 / s and variance s^2") {
  constexpr std::size_t width = 512;
  const std::vector<double> deviations = {0.5, 1, 3};
  test::MemoryModel model;
  model.config = {{"model_type", "attention"}, {"heads", deviations.size()}};
  long_way::Normal normal(4);
  const auto projection = [&](bool deviates) {
    std::vector<float> values(width * width * deviations.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double deviation = deviates ? deviations[i % (width * deviations.size()) / width] : 1;
      values[i] = static_cast<float>(deviation * normal() / std::sqrt(static_cast<double>(width)));
    }
    return test::floats({width, width * deviations.size()}, values);
  };
  model.tensors["W_q"] = projection(true);
  model.tensors["W_k"] = projection(false);
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].embeddings = OwnedMatrix<float>(200, width);
  for (float& value : batch.sequences[0].embeddings.values()) value = static_cast<float>(normal());
  const auto heads = temperatures_of(model.bound(), batch, 0.99);
  REQUIRE(heads.size() == deviations.size());
  for (std::size_t h = 0; h < heads.size(); ++h) {
    CAPTURE(deviations[h]);
    CHECK(heads[h].rows == 200);
    CHECK(std::abs(*heads[h].temperature * deviations[h] - 1) < 0.03);
    CHECK(std::abs(*heads[h].score_variance / (deviations[h] * deviations[h]) - 1) < 0.06);
  }
}

TEST_CASE("variance, entropy and saturation by their definitions, on a masked model") {
  for (const std::string name : {"bert", "llama"}) {
    CAPTURE(name);
    const test::Golden golden(ATTNCTL_SOURCE_DIR "/tests/golden/" + name);
    const model::Model model = test::MemoryModel::golden(name).bound();
    input::Batch batch;
    for (std::size_t i = 0; i < golden.inputs(); ++i) {
      batch.sequences.push_back(golden.sequence(i));
      batch.sequences.back().id = std::to_string(i);
    }
    const auto captured = test::capture_all(model, batch);
    for (const HeadTemperature& got : temperatures_of(model, batch, 0.6)) {
      double squares = 0, freedom = 0, entropy = 0, rows = 0, saturated = 0;
      for (const test::CapturedSequence& sequence : captured) {
        const test::CapturedHead& head = sequence.heads.at(got.head);
        for (std::size_t i = 0; i < head.pattern.rows(); ++i) {
          std::vector<double> scores, weights;
          for (std::size_t j = 0; j < head.pattern.cols(); ++j) {
            if (std::isinf(head.scores(i, j))) continue;
            scores.push_back(static_cast<double>(head.scores(i, j)));
            weights.push_back(static_cast<double>(head.pattern(i, j)));
          }
          if (scores.size() < 2) continue;
          double mean = 0, largest = 0;
          for (const double score : scores) mean += score / static_cast<double>(scores.size());
          for (const double score : scores) squares += (score - mean) * (score - mean);
          for (const double weight : weights) {
            entropy -= weight > 0 ? weight * std::log(weight) : 0;
            largest = std::max(largest, weight);
          }
          freedom += static_cast<double>(scores.size()) - 1;
          rows += 1;
          saturated += largest > 0.6 ? 1 : 0;
        }
      }
      CHECK(static_cast<double>(got.rows) == rows);
      CHECK(*got.score_variance == doctest::Approx(squares / freedom).epsilon(1e-9));
      CHECK(*got.entropy == doctest::Approx(entropy / rows).epsilon(1e-5));
      CHECK(*got.saturated == doctest::Approx(saturated / rows));
    }
  }
}

/// Returns the counts for `rows` rows with `keys` keys.
std::vector<std::uint64_t> rows_of(std::size_t keys, std::uint64_t rows = 1) {
  std::vector<std::uint64_t> counts(keys + 1);
  counts[keys] = rows;
  return counts;
}

TEST_CASE("the entropy of rows of normal scores is that of scipy's integrals, and of samples") {
  const test::Golden golden(ATTNCTL_SOURCE_DIR "/tests/golden/experiments");
  const test::GoldenArray exact = golden.array("entropy_exact");  // [cases][keys, tau, entropy]
  for (std::size_t i = 0; i < exact.shape[0]; ++i) {
    const double* row = exact.values.data() + i * 3;
    CAPTURE(row[0]);
    CAPTURE(row[1]);
    CHECK(std::abs(normal_score_entropy(row[1], rows_of(static_cast<std::size_t>(row[0]))) - row[2]) < 1e-8);
  }
  const test::GoldenArray sampled = golden.array("entropy_sampled");  // [cases][keys, tau, mean, std error]
  for (std::size_t i = 0; i < sampled.shape[0]; ++i) {
    const double* row = sampled.values.data() + i * 4;
    CAPTURE(row[0]);
    CAPTURE(row[1]);
    const double got = normal_score_entropy(row[1], rows_of(static_cast<std::size_t>(row[0])));
    CHECK(std::abs(got - row[2]) < 4 * row[3]);
  }
}

TEST_CASE("rows of different lengths: the mean of their entropies, rows with one key do not count") {
  std::vector<std::uint64_t> counts = rows_of(9, 3);
  counts[1] = 2;
  counts[4] = 5;
  for (const double tau : {0.2, 1.0, 6.0}) {
    const double want =
        (5 * normal_score_entropy(tau, rows_of(4)) + 3 * normal_score_entropy(tau, rows_of(9))) / 10;
    CHECK(normal_score_entropy(tau, counts) == doctest::Approx(want).epsilon(1e-9));
  }
}

TEST_CASE("entropy falls as scores grow, and a temperature is found again") {
  for (const std::size_t keys : {std::size_t{2}, std::size_t{128}, std::size_t{5000}}) {
    const std::vector<std::uint64_t> counts = rows_of(keys);
    double before = std::log(static_cast<double>(keys));
    for (const double temperature : {50.0, 7.0, 1.001, 1.0, 0.9, 0.125, 0.04, 0.002}) {
      const double entropy = normal_score_entropy(1 / temperature, counts);
      CHECK(entropy < before);
      before = entropy;
      const auto found = temperature_of_entropy(entropy, counts);
      REQUIRE(found.has_value());
      CHECK(std::abs(*found / temperature - 1) < 1e-5);
    }
    CHECK_FALSE(temperature_of_entropy(0, counts).has_value());
    CHECK_FALSE(temperature_of_entropy(std::log(static_cast<double>(keys)) + 1e-3, counts).has_value());
  }
}

}  // namespace
}  // namespace attnctl::analysis

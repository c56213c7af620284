#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "linalg/decompositions.hpp"
#include "support/memory_checkpoint.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::textbook {
namespace {

double number(const Record& record, const std::string& name) {
  for (const auto& [key, value] : record.fields) {
    if (key == name) return std::get<double>(std::get<Cell>(value.data));
  }
  FAIL("no " << name);
  return 0;
}

Cell cell(const Table& table, std::size_t row, std::size_t column) {
  std::vector<Cell> cells(table.columns.size());
  table.row(row, cells);
  return cells[column];
}

TEST_CASE("diversity: the textbook's figures, one draw at a time") {
  Pool pool(2);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    CAPTURE(seed);
    const Record summary = diversity_experiment({.draws = 1, .seed = seed}, pool).summary;
    CHECK(std::abs(number(summary, "random_effective_rank") - 61.9) < 0.1);
    CHECK(std::abs(number(summary, "specialised_effective_rank") - 58.7) < 0.2);
    CHECK(std::abs(number(summary, "random_mean_similarity")) < 0.001);
    CHECK(std::abs(number(summary, "specialised_mean_similarity")) < 0.001);
    CHECK(std::abs(number(summary, "random_mean_absolute_similarity") - 0.0016) < 0.0003);
    CHECK(std::abs(number(summary, "specialised_mean_absolute_similarity") - 0.0012) < 0.0003);
  }
}

TEST_CASE("diversity: saved weights are those that were measured, whatever the threads") {
  const DiversityOptions options{.d = 24, .heads = 3, .d_head = 4, .gain = 5, .draws = 1, .seed = 2};
  Pool one(1);
  Pool three(3);
  const ExperimentResult result = diversity_experiment(options, three);
  for (const bool specialised : {false, true}) {
    CAPTURE(specialised);
    const std::vector<Tensor> saved = diversity_weights(options, specialised, one);
    REQUIRE(saved.size() == 2);
    CHECK(saved[0].name == "W_q");
    CHECK(saved[1].name == "W_k");
    CHECK(saved[0].shape == Shape{3, 24, 4});
    const auto value = [&](std::size_t which, std::size_t head, std::size_t row, std::size_t column) {
      const auto values = std::get<std::span<const float>>(saved[which].values);
      return static_cast<double>(values[(head * 24 + row) * 4 + column]);
    };
    std::vector<OwnedMatrix<double>> circuits;
    for (std::size_t head = 0; head < 3; ++head) {  // forms W_q W_k^T
      OwnedMatrix<double>& circuit = circuits.emplace_back(24, 24);
      for (std::size_t i = 0; i < 24; ++i) {
        for (std::size_t j = 0; j < 24; ++j) {
          for (std::size_t c = 0; c < 4; ++c) circuit(i, j) += value(0, head, i, c) * value(1, head, j, c);
        }
      }
      std::vector<double> spectrum = linalg::singular_values(circuit.view());
      spectrum.resize(4);
      const double rank = std::get<double>(cell(result.rows, head, specialised ? 4 : 1));
      CHECK(linalg::effective_rank(spectrum).value() == doctest::Approx(rank).epsilon(1e-6));
    }
    double inner = 0;
    double first = 0;
    double second = 0;
    for (std::size_t i = 0; i < circuits[0].values().size(); ++i) {
      inner += circuits[0].values()[i] * circuits[1].values()[i];
      first += circuits[0].values()[i] * circuits[0].values()[i];
      second += circuits[1].values()[i] * circuits[1].values()[i];
    }
    const auto& page = std::get<HeatmapPage>(result.heatmaps[0].page);
    const Heatmap& map = page.heatmaps[specialised ? 1 : 0];
    CHECK(std::get<std::span<const double>>(map.values.values)[1] ==
          doctest::Approx(inner / std::sqrt(first * second)).epsilon(1e-5));
    double own = 0;
    double other = 0;
    for (std::size_t row = 0; row < 24; ++row) {
      for (std::size_t c = 0; c < 4; ++c) (row / 8 == 1 ? own : other) += std::abs(value(0, 1, row, c));
    }
    CHECK((own > other) == specialised);  // eight of 24 rows, multiplied by the gain
  }
}

TEST_CASE("diversity: random heads are tied as the model's are") {
  // Heads 0 and 2 are equal, so one of six pairs has similarity 1. The mean of the others is about 0.
  Pool pool(1);
  Warnings warnings;
  const model::Model model = test::MemoryModel::golden("attention-tied").bound();
  const ExperimentResult result =
      model_diversity_experiment(model, analysis::Circuit::qk, {.draws = 20, .seed = 4}, pool, warnings);
  REQUIRE(result.rows.columns.at(5) == "random_similarity");
  CHECK(std::abs(std::get<double>(cell(result.rows, 0, 5)) - 1.0 / 6) < 0.05);
}

TEST_CASE("diversity: a model's layers beside random heads of their shapes") {
  Pool pool(2);
  Warnings warnings;
  const model::Model model = test::MemoryModel::golden("llama").bound();
  const DiversityOptions options{.draws = 200};
  for (const analysis::Circuit circuit : {analysis::Circuit::qk, analysis::Circuit::ov}) {
    const ExperimentResult result = model_diversity_experiment(model, circuit, options, pool, warnings);
    REQUIRE(result.rows.rows == model.config().layers.size());
    for (std::size_t layer = 0; layer < result.rows.rows; ++layer) {
      CAPTURE(layer);
      // The weights of the golden model are random too.
      const double rank = std::get<double>(cell(result.rows, layer, 1));
      const double random = std::get<double>(cell(result.rows, layer, 2));
      const double deviation = std::get<double>(cell(result.rows, layer, 3));
      CHECK(deviation > 0);
      CHECK(std::abs(rank - random) < 5 * deviation);
      const double similarity = std::get<double>(cell(result.rows, layer, 7));
      CHECK(std::abs(similarity - std::get<double>(cell(result.rows, layer, 8))) <
            5 * std::get<double>(cell(result.rows, layer, 9)));
    }
  }
  const model::Model no_values = test::MemoryModel::golden("attention-qk-only").bound();
  CHECK_THROWS_AS(static_cast<void>(
                      model_diversity_experiment(no_values, analysis::Circuit::ov, options, pool, warnings)),
                  Error);
}

}  // namespace
}  // namespace attnctl::textbook

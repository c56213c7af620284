#include <cmath>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "support/capture.hpp"
#include "support/memory_checkpoint.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::textbook {
namespace {

std::vector<Cell> row_at(const Table& table, std::size_t index) {
  std::vector<Cell> cells(table.columns.size());
  table.row(index, cells);
  return cells;
}

double number(const Cell& cell) {
  const auto* whole = std::get_if<std::int64_t>(&cell);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(cell);
}

std::vector<float> narrow(const OwnedMatrix<double>& matrix) {
  return {matrix.values().begin(), matrix.values().end()};
}

TEST_CASE("a head built for it sees position 1 from position 512, whatever the seed") {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    const ExperimentResult result = distance_experiment({.seed = seed});
    const std::vector<Cell> last = row_at(result.rows, result.rows.rows - 1);
    CHECK(number(last[0]) == 511);
    CHECK(number(last[1]) > 0.9);
    CHECK(number(last[2]) == doctest::Approx(number(last[1])).epsilon(1e-9));  // dz/dv = alpha
    CHECK(number(last[3]) == doctest::Approx(1.0 / 512));
  }
}

TEST_CASE("charts leave out influences below a millionth, the table has them") {
  const ExperimentResult result = distance_experiment({});
  const std::vector<Cell> last = row_at(result.rows, result.rows.rows - 1);
  const std::vector<Cell> drawn = row_at(result.drawn, result.rows.rows - 1);
  for (const std::size_t column : {5U, 7U}) {  // recurrent_influence, window_influence
    CHECK(number(last[column]) < 1e-6);
    CHECK(drawn[column] == Cell());
  }
  CHECK(drawn[2] == last[2]);
  CHECK(result.charts[0].y_axis == "Influence (below 1e-06 not shown)");
}

TEST_CASE("the pass itself gives the built head these weights") {
  const DistanceOptions options{.seed = 3};
  const BuiltHead head = build_head(options);
  test::MemoryModel model;
  model.config = {{"model_type", "attention"}, {"heads", 1}, {"causal", true}};
  model.tensors["W_q"] = test::floats({64, 16}, narrow(head.query));
  model.tensors["W_k"] = test::floats({64, 16}, narrow(head.key));
  model.tensors["W_v"] = test::floats({64, 16}, narrow(head.value));
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].embeddings = OwnedMatrix<float>(512, 64);
  for (std::size_t i = 0; i < head.x.values().size(); ++i)
    batch.sequences[0].embeddings.values()[i] = static_cast<float>(head.x.values()[i]);
  const auto captured = test::capture_all(model.bound(), batch);
  const OwnedMatrix<float>& pattern = captured[0].heads.at({0, 0}).pattern;
  const Table rows = distance_experiment(options).rows;
  for (std::size_t i = 0; i < rows.rows; ++i) {
    const std::vector<Cell> row = row_at(rows, i);
    const auto distance = static_cast<std::size_t>(number(row[0]));
    CHECK(static_cast<double>(pattern(distance, 0)) == doctest::Approx(number(row[1])).epsilon(1e-4));
  }
}

TEST_CASE("recurrence and local layers: steps and influence by their formulas") {
  const ExperimentResult result = distance_experiment({.n = 12, .window = 4, .decay = 0.5});
  // The distances are 1, 2, 4, 8, 11. A layer of window 4 reaches 3 tokens back.
  const std::vector<double> layers = {1, 1, 2, 3, 4};
  // Uniform weights over min(4, position) tokens. One layer gives 1/2 at position 2 and 1/3 at position 3.
  // Distance 4 takes two layers, through tokens 1..3 (0-based) with 1/2, 1/3, 1/4 and token 4 with 0.
  const std::vector<double> held = {0.5, 1.0 / 3, (0.5 + 1.0 / 3 + 0.25) / 4};
  REQUIRE(result.rows.rows == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    const std::vector<Cell> row = row_at(result.rows, i);
    CHECK(number(row[4]) == number(row[0]));
    CHECK(number(row[5]) == doctest::Approx(std::pow(0.5, number(row[0]) + 1)));
    CHECK(number(row[6]) == layers[i]);
    if (i < held.size()) CHECK(number(row[7]) == doctest::Approx(held[i]));
  }
}

}  // namespace
}  // namespace attnctl::textbook

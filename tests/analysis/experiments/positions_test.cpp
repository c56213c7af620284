#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "support/golden.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::textbook {
namespace {

nlohmann::json golden() {
  std::ifstream file(ATTNCTL_SOURCE_DIR "/tests/golden/positions.json");
  return nlohmann::json::parse(file);
}

std::vector<double> column(const Table& table, const std::string& name) {
  const auto place = std::ranges::find(table.columns, name, &Column::name) - table.columns.begin();
  REQUIRE(place < std::ssize(table.columns));
  std::vector<double> values;
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t i = 0; i < table.rows; ++i) {
    table.row(i, cells);
    values.push_back(std::get<double>(cells[static_cast<std::size_t>(place)]));
  }
  return values;
}

double summary(const ExperimentResult& result, const std::string& name) {
  for (const auto& [field, value] : result.summary.fields) {
    if (field == name) return std::get<double>(std::get<Cell>(value.data));
  }
  FAIL("no " << name);
  return 0;
}

void check_close(const std::vector<double>& got, const nlohmann::json& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i].get<double>()) < tolerance);
}

TEST_CASE("positions: sinusoidal ones are NumPy's") {
  const nlohmann::json want = golden();
  const OwnedMatrix<double> row = sinusoidal_positions(5, 1, 64);
  check_close({row.values().begin(), row.values().end()}, want.at("sinusoidal_row_5"), 1e-14);
  Pool pool(2);
  const ExperimentResult result = positions_experiment({.positions = 16}, pool);
  check_close(column(result.rows, "dot_product"), want.at("sinusoidal_dot_product"), 1e-12);
  CHECK(summary(result, "smallest_distance") ==
        doctest::Approx(want.at("sinusoidal_smallest_distance").get<double>()).epsilon(1e-12));
}

TEST_CASE("positions: their dot product depends on the distance alone, and an offset is a rotation") {
  Pool pool(2);
  const ExperimentResult result = positions_experiment({.positions = 40, .d = 512}, pool);
  const std::vector<double> dots = column(result.rows, "dot_product");
  for (std::size_t o = 0; o < dots.size(); ++o) {
    double kernel = 0;  // sum over the frequencies of cos(o w)
    for (std::size_t i = 0; i < 256; ++i)
      kernel += std::cos(static_cast<double>(o) * std::pow(10000.0, -2.0 * static_cast<double>(i) / 512));
    CHECK(dots[o] == doctest::Approx(kernel).epsilon(1e-12));
  }
  CHECK(dots[0] == doctest::Approx(256));
  for (const double spread : column(result.rows, "dot_product_spread")) CHECK(spread < 1e-11);
  for (const double residual : column(result.rows, "rotation_residual")) CHECK(residual < 1e-13);
  // Angles of about 10^6 have rounding errors of about 1e-10.
  for (const double residual : column(result.rows, "far_rotation_residual")) CHECK(residual < 1e-9);
  // A rotation in the wrong direction or by the wrong offset has a large residual.
  OwnedMatrix<double> turned = sinusoidal_positions(7, 1, 512);
  turn_positions(turned.view(), 3);
  CHECK(turned(0, 0) == doctest::Approx(std::sin(10.0)));
  CHECK(turned(0, 1) == doctest::Approx(std::cos(10.0)));
}

TEST_CASE("positions: without them the order of the input is the order of the output, and nothing else") {
  Pool pool(1);
  for (const std::size_t heads : {1U, 8U}) {
    const ExperimentResult result = positions_experiment({.positions = 20, .d = 32, .heads = heads}, pool);
    CHECK(summary(result, "permutation_error") < 1e-13);
    CHECK(summary(result, "permutation_error_with_positions") > 0.05);
  }
}

TEST_CASE("positions: of models, learned and rotary, against NumPy") {
  const nlohmann::json want = golden();
  Warnings warnings;
  Pool pool(2);
  const model::Model bert = test::bind_model(ATTNCTL_SOURCE_DIR "/data/tiny-bert", warnings);
  const ExperimentResult learned = positions_experiment({.positions = 32, .model = &bert}, pool);
  check_close(column(learned.rows, "learned_dot_product"), want.at("learned_dot_product"), 1e-10);
  check_close(column(learned.rows, "learned_dot_product_deviation"), want.at("learned_dot_product_deviation"),
              1e-10);
  CHECK(summary(learned, "learned_smallest_distance") ==
        doctest::Approx(want.at("learned_smallest_distance").get<double>()).epsilon(1e-10));
  CHECK(learned.heatmaps.size() == 3);

  const model::Model llama = test::bind_model(ATTNCTL_SOURCE_DIR "/data/tiny-llama", warnings);
  const ExperimentResult rotary = positions_experiment({.positions = 32, .model = &llama}, pool);
  check_close(column(rotary.rows, "rotary_kernel"), want.at("rotary_kernel"), 1e-5);  // float32 frequencies
  CHECK(rotary.heatmaps.size() == 2);

  const model::Model sinusoidal =
      test::bind_model(ATTNCTL_SOURCE_DIR "/tests/golden/attention-sinusoidal", warnings);
  CHECK(positions_experiment({.model = &sinusoidal}, pool).rows.columns.size() == 5);
}

TEST_CASE("positions: what cannot be is refused") {
  Warnings warnings;
  Pool pool(1);
  const model::Model bert = test::bind_model(ATTNCTL_SOURCE_DIR "/data/tiny-bert", warnings);
  const model::Model none = test::bind_model(ATTNCTL_SOURCE_DIR "/tests/golden/attention-linear", warnings);
  struct Row {
    PositionsOptions options;
    Status status;
    const char* message;
  };
  for (const Row& row :
       {Row{{.d = 7}, Status::usage, "even number"}, Row{{.d = 8, .heads = 3}, Status::usage, "divisor"},
        Row{{.positions = 129, .model = &bert}, Status::usage, "has only 128"},
        Row{{.model = &none}, Status::bad_input, "needs a model with rotary positions"}}) {
    try {
      static_cast<void>(positions_experiment(row.options, pool));
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.status() == row.status);
      CHECK_MESSAGE(std::string(error.what()).find(row.message) != std::string::npos, error.what());
    }
  }
}

}  // namespace
}  // namespace attnctl::textbook

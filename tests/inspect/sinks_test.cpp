#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "analysis/patterns/sink_weights.hpp"
#include "base/pool.hpp"
#include "inspect/inspection.hpp"
#include "support/golden.hpp"

namespace attnctl::inspect {
namespace {

const std::string kSinks = ATTNCTL_SOURCE_DIR "/tests/golden/sinks/";

/// A model of tests/golden/make_sinks.py and the expected results for its input.
struct SinkCase {
  const char* name;
  const char* model;
};
constexpr SinkCase kSinkCases[] = {{"tiny-bert", "data/tiny-bert"},
                                   {"tiny-llama", "data/tiny-llama"},
                                   {"gpt2", "tests/golden/gpt2"},
                                   {"llama", "tests/golden/llama"},
                                   {"planted", "tests/golden/sinks/planted/model"}};

/// The rows of the tables of one run, by the name of the table.
struct SinkRun {
  std::vector<Table> tables;

  SinkRun(const model::Model& model, const input::Batch& batch, std::size_t panel_rows = 128) {
    InspectRequest request;
    request.form = Form::tables;
    request.includes = resolve_includes("sinks,activations", true, Given::inputs, request.form);
    request.selection = forward::Selection::all(model.config());
    Pool pool(2);
    Warnings warnings;
    const tokenizer::Vocabulary vocabulary;
    Inspection inspection(request, {.model = model, .vocabulary = vocabulary, .batch = batch},
                          {.pool = pool, .warnings = warnings, .panel_rows = panel_rows});
    for (const Table& table : inspection.run().tables) {
      if (table.name == "inputs") continue;
      // The rows must not outlive the inspection.
      std::vector<std::vector<Cell>> rows(table.rows, std::vector<Cell>(table.columns.size()));
      for (std::size_t row = 0; row < table.rows; ++row) table.row(row, rows[row]);
      tables.push_back(make_table(table.name, table.columns, std::move(rows)));
    }
  }

  [[nodiscard]] std::vector<Cell> cells(const std::string& table, const std::string& column) const {
    const auto found = std::ranges::find(tables, table, &Table::name);
    REQUIRE(found != tables.end());
    const auto index = found->find(column);
    REQUIRE(index);
    std::vector<Cell> all;
    std::vector<Cell> row(found->columns.size());
    for (std::size_t r = 0; r < found->rows; ++r) {
      found->row(r, row);
      all.push_back(row[*index]);
    }
    return all;
  }
  [[nodiscard]] std::vector<double> numbers(const std::string& table, const std::string& column) const {
    std::vector<double> all;
    for (const Cell& cell : cells(table, column)) all.push_back(number_of(cell));
    return all;
  }
};

SinkRun run_case(const SinkCase& of, std::size_t panel_rows = 128) {
  Warnings warnings;
  const model::Model model = test::bind_model(std::string(ATTNCTL_SOURCE_DIR "/") + of.model, warnings);
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].ids = test::Golden(kSinks + of.name).integers("ids");
  return {model, batch, panel_rows};
}

void check_numbers(const std::vector<double>& got, const std::vector<double>& want, const std::string& what) {
  REQUIRE_MESSAGE(got.size() == want.size(), what);
  double largest = 1;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < want.size(); ++i) {
    CHECK_MESSAGE(std::isnan(got[i]) == std::isnan(want[i]), what, " ", i);
    if (!std::isnan(want[i]))
      CHECK_MESSAGE(std::abs(got[i] - want[i]) <= 4e-6 * largest, what, " ", i, ": ", got[i], " for ",
                    want[i]);
  }
}

TEST_CASE("sinks, write ratios and the largest activations are those of NumPy") {
  for (const SinkCase& of : kSinkCases) {
    CAPTURE(of.name);
    const test::Golden golden(kSinks + of.name);
    for (const std::size_t panel_rows : {std::size_t{2}, std::size_t{128}}) {
      const SinkRun run = run_case(of, panel_rows);
      for (const char* const name : {"first_weight", "null_weight", "weight", "write_ratio", "position"})
        check_numbers(run.numbers("sinks", name), golden.array(name).values, name);
      check_numbers(run.numbers("activations", "value"), golden.array("value").values, "value");
      check_numbers(run.numbers("activations", "position"), golden.array("activation_position").values, "at");
      check_numbers(run.numbers("activations", "dimension"), golden.array("dimension").values, "dimension");
      const std::vector<double> medians = run.numbers("activations", "median");
      const std::vector<double> values = run.numbers("activations", "value");
      const std::vector<double> ratios = run.numbers("activations", "ratio");
      const std::vector<double> want = golden.array("median").values;
      REQUIRE(medians.size() == 3 * want.size());
      for (std::size_t i = 0; i < medians.size(); ++i) {
        CHECK(medians[i] == doctest::Approx(want[i / 3]).epsilon(1e-5));
        CHECK(ratios[i] == doctest::Approx(std::abs(values[i]) / want[i / 3]).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("sinks under masks are those of NumPy") {
  for (const std::string name : {"attention", "attention-masks", "attention-3d"}) {
    CAPTURE(name);
    const std::string folder = ATTNCTL_SOURCE_DIR "/tests/golden/" + name;
    Warnings warnings;
    const model::Model model = test::bind_model(folder, warnings);
    const test::Golden inputs(folder);
    const test::Golden golden(kSinks + name);
    input::Batch batch;
    for (std::size_t i = 0; i < inputs.inputs(); ++i) batch.sequences.push_back(inputs.sequence(i));
    for (const std::size_t panel_rows : {std::size_t{2}, std::size_t{128}}) {
      const SinkRun run(model, batch, panel_rows);
      for (const char* const column : {"first_weight", "null_weight", "weight", "position"})
        check_numbers(run.numbers("sinks", column), golden.array(column).values, column);
    }
  }
}

TEST_CASE("the planted sinks, idle head and massive activation are found, and nothing else") {
  const SinkRun run = run_case(kSinkCases[4]);
  const std::vector<double> first = run.numbers("sinks", "first_weight");
  const std::vector<double> weight = run.numbers("sinks", "weight");
  const std::vector<double> ratio = run.numbers("sinks", "write_ratio");
  REQUIRE(first.size() == 8);
  CHECK(first[0] > 0.95);  // 0.0: sink at token 0
  CHECK(first[2] < 0.1);   // 0.2: sink at token 5, at position 1
  CHECK(weight[2] > 0.95);
  CHECK(run.numbers("sinks", "position")[2] == 1);
  CHECK(ratio[1] == 0);  // 0.1: W_O is 0
  // 0.3: even weights, whose mean on key 0 over n = 16 queries is (1 + 1/2 + ... + 1/n) / n
  double even = 0;
  for (int n = 1; n <= 16; ++n) even += 1.0 / n / 16;
  CHECK(first[3] == doctest::Approx(even).epsilon(1e-6));
  CHECK(run.numbers("sinks", "null_weight")[0] == doctest::Approx(even).epsilon(1e-6));

  std::vector<bool> sinks, idle, massive;
  for (const Cell& cell : run.cells("sinks", "sink")) sinks.push_back(std::get<bool>(cell));
  for (const Cell& cell : run.cells("sinks", "idle")) idle.push_back(std::get<bool>(cell));
  for (const Cell& cell : run.cells("activations", "massive")) massive.push_back(std::get<bool>(cell));
  CHECK(sinks == std::vector<bool>{true, false, true, false, false, false, false, false});
  CHECK(idle == std::vector<bool>{false, true, false, false, false, false, false, false});
  CHECK(massive == std::vector<bool>{false, false, false, true, false, false});
  CHECK(run.numbers("activations", "position")[3] == 0);
  CHECK(run.numbers("activations", "dimension")[3] == 7);
  CHECK(run.numbers("activations", "value")[3] > 1500);

  // One record for the input, and one for all inputs.
  CHECK(run.numbers("sink_rates", "heads") == std::vector<double>{8, 8});
  CHECK(run.numbers("sink_rates", "sink_heads") == std::vector<double>{1, 1});
  CHECK(run.numbers("sink_rates", "sink_rate") == std::vector<double>{0.125, 0.125});
  CHECK(run.numbers("sink_rates", "idle_heads") == std::vector<double>{1, 1});
}

TEST_CASE("the sink rate of all inputs is the mean over inputs") {
  Warnings warnings;
  const model::Model model = test::bind_model(kSinks + "planted/model", warnings);
  input::Batch batch;
  batch.sequences.resize(2);
  batch.sequences[0].ids = test::Golden(kSinks + "planted").integers("ids");
  batch.sequences[0].id = "with token 0";
  batch.sequences[1].ids = {9, 12, 19, 7, 2, 23, 11, 14, 3, 17, 8, 21, 6, 10, 1, 4};
  batch.sequences[1].id = "without";
  const SinkRun run(model, batch);
  const std::vector<double> rates = run.numbers("sink_rates", "sink_rate");
  REQUIRE(rates.size() == 3);
  CHECK(rates[0] == 0.125);
  CHECK(rates[1] == 0);
  CHECK(rates[2] == doctest::Approx(0.0625));
  CHECK(run.numbers("sink_rates", "sink_heads") == std::vector<double>{1, 0, 0});
  CHECK(run.numbers("sink_rates", "idle_heads") == std::vector<double>{1, 1, 1});
  CHECK(run.cells("sink_rates", "input") ==
        std::vector<Cell>{std::string("with token 0"), std::string("without"), Cell()});
}

/// Passes one panel of head 0.0 to an observer. Hidden keys have the score -inf.
void pass_panel(analysis::SinkWeights& sinks, std::size_t first_query, const OwnedMatrix<float>& pattern,
                const OwnedMatrix<float>& scores, std::span<const std::uint8_t> masked = {}) {
  forward::AttentionPanel panel;
  panel.first_query = first_query;
  panel.pattern = pattern.view();
  panel.scores = scores.view();
  panel.fully_masked = masked;
  sinks.panel(panel);
}

TEST_CASE("the largest mean weight leaves out keys with few queries, and prefers the first of equal keys") {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].ids = {1, 2, 3, 4};
  Warnings warnings;
  const model::Model model = test::bind_model(kSinks + "planted/model", warnings);
  analysis::SinkWeights sinks(forward::Selection{{{0, 0}}});
  sinks.begin(model, batch);
  OwnedMatrix<float> pattern(2, 4), scores(2, 4);
  // Two causal rows, then a row that sees no key, and the last row, which attends to itself.
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t k = 0; k < 4; ++k) scores(r, k) = k <= r ? 0 : kHidden;
  }
  pattern(0, 0) = 1;
  pattern(1, 0) = pattern(1, 1) = 0.5F;
  pass_panel(sinks, 0, pattern, scores);
  for (std::size_t k = 0; k < 4; ++k) {
    scores(0, k) = kHidden;
    scores(1, k) = 0;
    pattern(0, k) = pattern(1, k) = 0;
  }
  pattern(1, 3) = 1;
  const std::vector<std::uint8_t> masked = {1, 0};
  pass_panel(sinks, 2, pattern, scores, masked);
  const std::vector<analysis::HeadSink> found = sinks.finish();
  REQUIRE(found.size() == 1);
  CHECK(found[0].rows == 3);
  CHECK(found[0].first_weight.value() == doctest::Approx(0.5));      // (1 + 0.5 + 0) / 3
  CHECK(found[0].null_weight.value() == doctest::Approx(1.75 / 3));  // (1 + 1/2 + 1/4) / 3
  // Key 3 has alpha 1, but one query instead of three: less than half.
  CHECK(found[0].weight.value() == doctest::Approx(0.5));
  CHECK(found[0].position == std::size_t{0});

  sinks.begin(model, batch);
  OwnedMatrix<float> even(4, 4), all(4, 4);
  std::ranges::fill(even.values(), 0.25F);
  std::ranges::fill(all.values(), 0);
  pass_panel(sinks, 0, even, all);
  CHECK(sinks.finish()[0].position == std::size_t{0});

  sinks.begin(model, batch);
  even(2, 1) = std::numeric_limits<float>::quiet_NaN();
  pass_panel(sinks, 0, even, all);
  const analysis::HeadSink undefined = sinks.finish()[0];
  CHECK(undefined.rows == 4);
  CHECK(!undefined.first_weight);
  CHECK(!undefined.weight);
  CHECK(!undefined.position);
}

}  // namespace
}  // namespace attnctl::inspect

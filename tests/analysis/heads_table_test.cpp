#include "analysis/heads_table.hpp"

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "analysis/model_summary.hpp"
#include "model/accounting/accounting.hpp"
#include "support/panels.hpp"

namespace attnctl::analysis {
namespace {

const std::vector<std::string> kMetricColumns = [] {
  std::vector<std::string> names{"qk_effective_rank", "ov_effective_rank", "qk_stable_rank",
                                 "ov_stable_rank",    "qk_numerical_rank", "ov_numerical_rank"};
  for (const RowMetric& metric : row_metrics()) names.emplace_back(metric.about.name);
  names.insert(names.end(), {"best_offset", "best_offset_share"});
  return names;
}();

std::vector<Column> with(std::vector<Column> first) {
  first.insert(first.end(), kMetricColumns.begin(), kMetricColumns.end());
  return first;
}

std::vector<Cell> row_of(const Table& table, std::size_t index) {
  std::vector<Cell> cells(table.columns.size());
  table.row(index, cells);
  return cells;
}

/// Returns metrics in which all rows of a head have the same value, the head's number.
std::vector<HeadPatternMetrics> made_metrics(const forward::Selection& selection, std::size_t inputs,
                                             bool per_input) {
  std::vector<HeadPatternMetrics> all;
  for (std::size_t input = 0; input < inputs; ++input) {
    for (const model::HeadId head : selection.heads) {
      HeadPatternMetrics metrics;
      metrics.head = head;
      if (per_input) metrics.input = input;
      metrics.rows = 10 + input;
      metrics.means.assign(row_metrics().size(), 0.25);
      metrics.means[1] = std::nullopt;
      metrics.best_offset = -1;
      metrics.best_offset_share = 0.5;
      all.push_back(std::move(metrics));
    }
  }
  return all;
}

TEST_CASE("the heads table has the promised columns in their order") {
  const model::Model model = test::open_golden("llama");  // 6 heads on 2 key/value heads
  const forward::Selection selection{{{0, 1}, {1, 4}}};
  const auto metrics = made_metrics(selection, 1, false);
  const HeadsTableParts parts{model.config(), selection, nullptr, metrics, nullptr};

  const Table table = heads_table(parts);
  CHECK(table.columns == with({"component", "layer", "head", "name", "kv_head", "rows"}));
  REQUIRE(table.rows == 2);
  const auto cells = row_of(table, 1);
  CHECK(cells[0] == Cell());
  CHECK(cells[1] == Cell(std::int64_t{1}));
  CHECK(cells[2] == Cell(std::int64_t{4}));
  CHECK(cells[3] == Cell("1.4"));
  CHECK(cells[4] == Cell(std::int64_t{1}));
  CHECK(cells[5] == Cell(std::int64_t{10}));
  for (std::size_t i = 6; i < 12; ++i) CHECK(cells[i] == Cell());  // no weight analysis
  CHECK(cells[12] == Cell(0.25F));
  CHECK(cells[13] == Cell());  // undefined
  CHECK(cells[cells.size() - 2] == Cell(std::int64_t{-1}));
  CHECK(cells.back() == Cell(0.5F));
}

TEST_CASE("the heads table names the input if it has a row per input") {
  const model::Model model = test::open_golden("llama");
  const forward::Selection selection{{{0, 0}, {1, 5}}};
  input::Batch batch;
  batch.sequences.resize(2);
  batch.sequences[0].id = "first";
  batch.sequences[1].id = "second";
  const auto metrics = made_metrics(selection, 2, true);
  const Table table = heads_table({model.config(), selection, nullptr, metrics, &batch});
  CHECK(table.columns == with({"input", "component", "layer", "head", "name", "kv_head", "rows"}));
  REQUIRE(table.rows == 4);
  CHECK(row_of(table, 1)[0] == Cell("first"));
  CHECK(row_of(table, 2)[0] == Cell("second"));
  CHECK(row_of(table, 3)[3] == Cell(std::int64_t{5}));
  CHECK(row_of(table, 3)[6] == Cell(std::int64_t{11}));
}

TEST_CASE("without inputs the heads table has only the metrics of weights") {
  const model::Model model = test::open_golden("attention-qk-only");
  const forward::Selection selection = forward::Selection::all(model.config());
  Pool pool(1);
  Warnings warnings;
  const WeightsAnalysis weights = analyze_weights(model, selection, {}, pool, warnings);
  const Table table = heads_table({model.config(), selection, &weights, {}, nullptr});
  REQUIRE(table.rows == selection.heads.size());
  const auto cells = row_of(table, 0);
  CHECK(cells[5] == Cell());  // number of rows
  CHECK(cells[6] == Cell(static_cast<float>(weights.qk.heads[0].effective_rank.value())));
  CHECK(cells[7] == Cell());  // no OV without W_V
  CHECK(cells[10] == Cell(static_cast<std::int64_t>(weights.qk.heads[0].numerical_rank.value())));
  CHECK(cells[12] == Cell());
}

/// Returns the table row of a metric in docs/metrics.md: `name`, unit, range, null, definition, source.
std::string documented(const Definition& metric) {
  std::ostringstream line;
  line << "| `" << metric.name << "` | " << metric.unit << " | " << metric.range << " | " << metric.null
       << " | " << metric.meaning << " | " << metric.source << " |";
  return line.str();
}

TEST_CASE("docs/metrics.md shows the definitions of the metrics, row by row") {
  std::ifstream page(ATTNCTL_SOURCE_DIR "/docs/metrics.md");
  REQUIRE(page);
  std::vector<std::string> shown;
  for (std::string line; std::getline(page, line) && line != "## Other results";) {
    if (line.starts_with("| `")) shown.push_back(line);
  }
  const auto metrics = metric_definitions();
  REQUIRE(shown.size() == metrics.size());
  for (std::size_t i = 0; i < shown.size(); ++i) CHECK(shown[i] == documented(metrics[i]));
}

TEST_CASE("every metric has a description") {
  for (const Definition& metric : metric_definitions()) {
    CAPTURE(metric.name);
    CHECK_FALSE(metric.range.empty());
    CHECK_FALSE(metric.meaning.empty());
    CHECK_FALSE(metric.source.empty());
  }
  const Table table = metrics_table();
  CHECK(table.columns == std::vector<Column>{"name", "unit", "range", "null", "source"});
  REQUIRE(table.rows == kMetricColumns.size());
  for (std::size_t i = 0; i < kMetricColumns.size(); ++i)
    CHECK(row_of(table, i)[0] == Cell(kMetricColumns[i]));
}

TEST_CASE("every column of the heads table and of a summary has a definition with a meaning") {
  const model::Model model = test::open_golden("bart");
  std::vector<Table> tables =
      model_summary(SummarySubject{&model, nullptr, model.config()},
                    {.length = std::nullopt, .shapes = true, .tensors = true, .families = true})
          .tables;
  tables.push_back(model::compare_attention(model.config(), 8));
  const forward::Selection selection{{{0, 0}}};
  const auto metrics = made_metrics(selection, 1, false);
  tables.push_back(heads_table({model.config(), selection, nullptr, metrics, nullptr}));
  for (const Table& table : tables) {
    for (const Column& column : table.columns) {
      CAPTURE(table.name);
      CAPTURE(column.name);
      REQUIRE(column.definition != nullptr);
      CHECK_FALSE(column.definition->meaning.empty());
    }
  }
}

}  // namespace
}  // namespace attnctl::analysis

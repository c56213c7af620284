#include <array>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "analysis/patterns/pattern_row.hpp"
#include "study/measure.hpp"
#include "study/state/sums.hpp"

// The measure `metrics`: the row metrics of `analyze`.
namespace attnctl {
namespace {

/// Returns the histogram bins for the unit of a metric.
Bins bins_of(const Metric& metric) {
  if (metric.unit == "tokens") return {.kind = Bins::Kind::octaves, .highest = 0, .count = 0};
  if (metric.unit == "nats") return {.kind = Bins::Kind::linear, .highest = 12.8, .count = 256};
  if (metric.unit == "bits") return {.kind = Bins::Kind::linear, .highest = 19.2, .count = 256};
  return {.kind = Bins::Kind::linear, .highest = 1, .count = 128};
}

struct HeadMetrics {
  std::uint64_t rows = 0;
  std::vector<Moments> metrics;  // [row_metrics()]

  auto parts() { return std::tie(rows, metrics); }
};

HeadMetrics empty_metrics() {
  HeadMetrics empty;
  for (const RowMetric& metric : row_metrics()) empty.metrics.emplace_back(bins_of(metric.about));
  return empty;
}

constexpr std::array kQuantiles = {std::pair{"q05", 0.05}, std::pair{"q25", 0.25}, std::pair{"median", 0.5},
                                   std::pair{"q75", 0.75}, std::pair{"q95", 0.95}};

class MetricsMeasure final : public PerHead<HeadMetrics> {
 public:
  explicit MetricsMeasure(const StudyShape& shape) : PerHead(shape, empty_metrics()) {}

  void begin(const StudyBlock& /*block*/) override {}
  void panel(const StudyPanel& panel) override {
    HeadMetrics& state = states_[panel.head];
    state.rows += panel.rows.size();
    const auto metrics = row_metrics();
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      values_.clear();
      for (const PatternRow& row : panel.rows) {
        if (const auto value = metrics[i].value(row)) values_.push_back(*value);
      }
      state.metrics[i].add(values_);
    }
  }
  void finish(StudyResults& results) const override;

 private:
  std::vector<double> values_;  // values of one metric in one panel
};

void MetricsMeasure::finish(StudyResults& results) const {
  const auto metrics = row_metrics();
  std::vector<ResultRow> distributions;
  std::vector<std::vector<Cell>> means(metrics.size());  // [metrics, heads]
  for (std::size_t h = 0; h < states_.size(); ++h) {
    ResultRow& fields = results.head_fields.emplace_back();
    fields.emplace_back("rows", count_cell(states_[h].rows));
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      const Moments& moments = states_[h].metrics[i];
      const MomentsSummary summary = moments.summary();
      const std::string name(metrics[i].about.name);
      fields.emplace_back(name, RowMoments{summary});
      means[i].push_back(real_cell(summary.mean));
      ResultRow& row = distributions.emplace_back();
      row = {{"head", RowHead{h}},
             {"metric", Cell(name)},
             {"count", count_cell(summary.count)},
             {"minimum", real_cell(summary.minimum)}};
      for (const auto& [quantile, q] : kQuantiles) row.emplace_back(quantile, real_cell(moments.quantile(q)));
      row.emplace_back("maximum", real_cell(summary.maximum));
    }
  }
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const Metric& metric = metrics[i].about;
    if (metric.name == "entropy" || metric.name == "distance") {
      results.text.emplace_back(
          head_grid(shape_, fmt::format("Mean {} ({})", metric.name, metric.unit), means[i]));
    }
  }
  add_rows(results, shape_, "distributions", "distribution", std::move(distributions));
}

}  // namespace

MeasureRow metrics_measure() {
  static const std::vector<Metric> metrics = [] {
    std::vector<Metric> all;
    for (const RowMetric& row : row_metrics()) all.push_back(row.about);
    return all;
  }();
  return {.name = "metrics",
          .description = "the row metrics of analyze: entropy, confidence, distance, previous token, ...",
          .make = make_measure<MetricsMeasure>,
          .metrics = metrics};
}

}  // namespace attnctl

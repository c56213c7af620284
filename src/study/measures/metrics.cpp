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

  template <typename Self>
  static auto parts(Self& self) {
    return std::tie(self.rows, self.metrics);
  }
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
  /// Returns the extremes and quantiles, one row per head and metric.
  [[nodiscard]] std::vector<ResultRow> distributions() const;

  std::vector<double> values_;  // values of one metric in one panel
};

std::vector<ResultRow> MetricsMeasure::distributions() const {
  std::vector<ResultRow> rows;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    for (std::size_t i = 0; i < row_metrics().size(); ++i) {
      const Moments& moments = states_[h].metrics[i];
      const MomentsSummary summary = moments.summary();
      ResultRow& row = rows.emplace_back();
      row = {{"head", RowHead{h}},
             {"metric", text_cell(row_metrics()[i].about.name)},
             {"count", count_cell(summary.count)},
             {"minimum", real_cell(summary.minimum)}};
      for (const auto& [name, q] : kQuantiles) row.emplace_back(name, real_cell(moments.quantile(q)));
      row.emplace_back("maximum", real_cell(summary.maximum));
    }
  }
  return rows;
}

void MetricsMeasure::finish(StudyResults& results) const {
  std::vector<Cell> rows;
  for (const HeadMetrics& head : states_) rows.push_back(count_cell(head.rows));
  results.head_fields.push_back(cell_field("rows", rows));
  for (std::size_t i = 0; i < row_metrics().size(); ++i) {
    std::vector<MomentsSummary> summaries;
    std::vector<Cell> means;
    for (const HeadMetrics& head : states_) {
      summaries.push_back(head.metrics[i].summary());
      means.push_back(real_cell(summaries.back().mean));
    }
    const Metric& metric = row_metrics()[i].about;
    if (metric.name == "entropy" || metric.name == "distance")
      results.text.push_back(head_grid(shape_, fmt::format("Mean {} ({})", metric.name, metric.unit), means));
    results.head_fields.push_back(moments_field(std::string(metric.name), summaries));
  }
  add_rows(results, shape_, "distributions", "distribution", distributions());
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

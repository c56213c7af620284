#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "analysis/patterns/pattern_row.hpp"
#include "study/measures/measures.hpp"
#include "study/measures/result_rows.hpp"
#include "study/state/moments.hpp"

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

  void merge(const HeadMetrics& other) {
    rows += other.rows;
    for (std::size_t i = 0; i < metrics.size(); ++i) metrics[i].merge(other.metrics.at(i));
  }
  void save(StateWriter& out) const {
    out.number(rows);
    for (const Moments& metric : metrics) metric.save(out);
  }
  void load(StateReader& in) {
    rows = in.number();
    for (Moments& metric : metrics) metric.load(in);
  }
};

HeadMetrics empty_metrics() {
  HeadMetrics empty;
  for (const RowMetric& metric : row_metrics()) empty.metrics.emplace_back(bins_of(metric.about));
  return empty;
}

constexpr std::array kShares = {std::pair{"q05", 0.05}, std::pair{"q25", 0.25}, std::pair{"median", 0.5},
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
             {"metric", Cell(std::string(row_metrics()[i].about.name))},
             {"count", count_cell(summary.count)},
             {"minimum", real_cell(summary.minimum)}};
      for (const auto& [name, share] : kShares) row.emplace_back(name, real_cell(moments.quantile(share)));
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
    for (const HeadMetrics& head : states_) summaries.push_back(head.metrics[i].summary());
    const std::string name(row_metrics()[i].about.name);
    if (name == "entropy" || name == "distance") {
      std::vector<Cell> means;
      means.reserve(summaries.size());
      for (const MomentsSummary& summary : summaries) means.push_back(real_cell(summary.mean));
      results.text.push_back(
          shape_.grid(fmt::format("Mean {} ({})", name, row_metrics()[i].about.unit), means));
    }
    results.head_fields.push_back(moments_field(name, summaries));
  }
  add_rows(results, shape_, "distributions", "distribution", distributions());
}

}  // namespace

std::span<const Metric> metrics_metrics() {
  static const std::vector<Metric> metrics = [] {
    std::vector<Metric> all;
    for (const RowMetric& row : row_metrics()) all.push_back(row.about);
    return all;
  }();
  return metrics;
}

std::unique_ptr<Measure> make_metrics_measure(const StudyShape& shape) {
  return std::make_unique<MetricsMeasure>(shape);
}

}  // namespace attnctl

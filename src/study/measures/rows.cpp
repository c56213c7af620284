#include <fmt/format.h>

#include "analysis/patterns/distance_profile.hpp"
#include "study/measure.hpp"

// The measures `metrics`, `positional` and `distance`: sums over the rows of the patterns.
namespace attnctl::study {
namespace {

struct HeadMetrics {
  std::uint64_t rows = 0;
  std::vector<QuantityMoments> metrics;  // [row_metrics()]

  auto parts() { return std::tie(rows, metrics); }
};

HeadMetrics empty_metrics() {
  HeadMetrics empty;
  for (const analysis::RowMetric& metric : analysis::row_metrics()) {
    Bins bins;  // depend on the unit of the metric
    if (metric.about.unit == "tokens") bins = {.spacing = Bins::Spacing::octaves, .highest = 0, .count = 0};
    if (metric.about.unit == "nats") bins = {.highest = 12.8, .count = 256};
    if (metric.about.unit == "bits") bins = {.highest = 19.2, .count = 256};
    empty.metrics.emplace_back(bins);
  }
  return empty;
}

class MetricsMeasure final : public PerHead<HeadMetrics> {
 public:
  explicit MetricsMeasure(const StudyShape& shape) : PerHead(shape, empty_metrics()) {}

  void panel(const StudyPanel& panel) override {
    HeadMetrics& state = states_[panel.head];
    state.rows += panel.rows.size();
    const auto metrics = analysis::row_metrics();
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      values_.clear();
      for (const analysis::PatternRow& row : panel.rows) {
        if (const auto value = metrics[i].value(row)) values_.push_back(*value);
      }
      state.metrics[i].add(values_);
    }
  }
  void finish(StudyResults& results) const override {
    const auto metrics = analysis::row_metrics();
    std::vector<std::vector<Cell>> distributions;
    std::vector<std::vector<Cell>> means(metrics.size());  // [metrics, heads]
    results.head_columns = {"rows"};
    for (const analysis::RowMetric& metric : metrics) {
      for (const char* const end : {"", "_variance", "_count"})
        results.head_columns.emplace_back(std::string(metric.about.name) + end);
    }
    for (std::size_t h = 0; h < states_.size(); ++h) {
      std::vector<Cell>& of_head = results.head_rows.emplace_back(row_of(states_[h].rows));
      for (std::size_t i = 0; i < metrics.size(); ++i) {
        const QuantityMoments& moments = states_[h].metrics[i];
        const MomentsSummary summary = moments.summary();
        means[i].push_back(real_cell(summary.mean));
        analysis::add_cells(of_head, row_of(summary.mean, summary.variance, summary.count));
        std::vector<Cell>& row = distributions.emplace_back(
            row_of(shape_.head_cells(h), metrics[i].about.name, summary.count, summary.minimum));
        for (const double q : {0.05, 0.25, 0.5, 0.75, 0.95}) row.push_back(real_cell(moments.quantile(q)));
        row.push_back(real_cell(summary.maximum));
      }
    }
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      const Definition& metric = metrics[i].about;
      if (metric.name == "entropy" || metric.name == "distance") {
        results.text.emplace_back(
            head_grid(shape_, fmt::format("Mean {} ({})", metric.name, metric.unit), means[i]));
      }
    }
    add_table(results, "distribution", "distributions",
              {"component", "layer", "head", "name", "metric", "count", "minimum", "q05", "q25", "median",
               "q75", "q95", "maximum"},
              std::move(distributions));
  }

 private:
  std::vector<double> values_;  // values of one metric in one panel
};

constexpr auto kPositionalDefinitions = std::to_array<Definition>({
    {"positional.weight", "", "[0, 1]", "uniform: the mean of 1 / visible keys over the same rows",
     "for each offset o from query to key, -8 to 8: mean of a_i,i+o over the rows that may attend to key i+o",
     "Voita et al. 2019"},
    {"positional.peaks", "", "[0, 1]", "1 / visible keys if the largest weight is on a random key",
     "share of all rows whose largest weight is at offset o (the first of equal weights)",
     "Voita et al. 2019"},
    {"positional.count", "", "from 0", "", "number of rows that may attend to the key at offset o"},
    {"offset", "tokens", "[-8, 8]", "", "position of the key - position of the query"},
    {"best_offset", "tokens", "[-8, 8]", "", "most frequent offset of the largest weight of a row"},
    {"best_offset_share", "", "[0, 1]", "",
     "share of all rows whose largest weight is at best_offset; the role positional has another "
     "score (explain roles.positional)"},
});
constexpr auto kDistanceDefinitions = std::to_array<Definition>({
    {"distance.weight", "", "[0, 1]", "uniform: the same for uniform attention over the visible keys",
     "mean over rows of the weight on the keys whose distance |i - j| is in the bin",
     "Vig and Belinkov 2019"},
    {"distance.pairs", "", "from 0", "", "number of pairs of a query and a visible key in the bin"},
    {"first", "tokens", "from 0", "", "smallest distance in the bin"},
    {"last", "tokens", "from 0", "", "largest distance in the bin"},
});

/// Sums for one offset. An offset is key position minus query position.
struct OffsetSums {
  std::uint64_t peaks = 0;  // rows whose largest weight is at this offset
  WeightSums visible;       // over the rows for which the key at this offset is visible

  auto parts() { return std::tie(peaks, visible); }
};

struct HeadOffsets {
  std::uint64_t rows = 0;
  std::array<OffsetSums, analysis::kOffsetCount> offsets;

  auto parts() { return std::tie(rows, offsets); }
  [[nodiscard]] Cell peak_share(std::size_t offset) const {
    return mean_cell(static_cast<double>(offsets[offset].peaks), rows);
  }
};

/// For each offset or distance bin of a panel: in `rows`, the number of visible pairs (query, key), and in
/// `null`, the sum of their weights under uniform attention.
using UniformNulls = std::vector<SentenceTerm>;

class PositionalMeasure final : public PerHead<HeadOffsets> {
 public:
  explicit PositionalMeasure(const StudyShape& shape) : PerHead(shape) {}

  void panel(const StudyPanel& panel) override {
    HeadOffsets& state = states_[panel.head];
    state.rows += panel.rows.size();
    analysis::OffsetPeaks peaks;
    std::array<double, analysis::kOffsetCount> weights{};
    for (const analysis::PatternRow& row : panel.rows) {
      peaks.add(row);
      const forward::KeyRange keys = analysis::keys_near(row, kFarthest);
      double* const at = weights.data() + (keys.first + kFarthest - row.query);
      for (std::size_t i = 0; i < keys.size(); ++i) at[i] += static_cast<double>(row.weights[keys.first + i]);
    }
    const auto& nulls = nulls_.of(panel, [&] {
      UniformNulls found(analysis::kOffsetCount);
      for (const analysis::PatternRow& row : panel.rows) {
        const double uniform = 1 / static_cast<double>(panel.visible.count(row.query));
        analysis::for_each_visible_offset(row, panel.visible,
                                          [&](std::size_t i) { found[i].add(0, uniform); });
      }
      return found;
    });
    for (std::size_t i = 0; i < analysis::kOffsetCount; ++i) {
      state.offsets[i].peaks += peaks.counts[i];
      state.offsets[i].visible.add(nulls[i].rows, weights[i], nulls[i].null);
    }
  }
  void finish(StudyResults& results) const override {
    std::vector<Cell> best, best_shares;
    for (const HeadOffsets& state : states_) {
      analysis::OffsetPeaks peaks;
      for (std::size_t i = 0; i < analysis::kOffsetCount; ++i) peaks.counts[i] = state.offsets[i].peaks;
      const auto offset = peaks.best();
      best.push_back(offset ? Cell(std::int64_t{*offset}) : Cell());
      best_shares.push_back(
          offset ? state.peak_share(static_cast<std::size_t>(*offset + analysis::kLargestOffset))
                 : mean_cell(0, state.rows));
      results.head_rows.push_back({best.back(), best_shares.back()});
    }
    results.head_columns = {"best_offset", "best_offset_share"};
    results.text.push_back(head_grid(shape_, "Most frequent offset of the largest weight", best));
    results.text.push_back(
        head_grid(shape_, "Share of rows whose largest weight is at that offset", best_shares));
    std::vector<std::vector<Cell>> rows;
    for (std::size_t h = 0; h < states_.size(); ++h) {
      for (std::size_t i = 0; i < analysis::kOffsetCount; ++i) {
        const WeightSums& sums = states_[h].offsets[i].visible;
        rows.push_back(row_of(shape_.head_cells(h), states_[h].rows,
                              static_cast<std::int64_t>(i) - analysis::kLargestOffset, sums.count,
                              mean_cell(sums.weight.value(), sums.count),
                              mean_cell(sums.uniform.value(), sums.count), states_[h].peak_share(i)));
      }
    }
    add_table(results, "positional", "positional",
              {"component", "layer", "head", "name", "rows", "offset", "count", "weight", "uniform", "peaks"},
              std::move(rows));
  }

 private:
  PerPanel<UniformNulls> nulls_;  // by offset
};

const std::vector<analysis::DistanceBin>& all_bins() {
  constexpr std::size_t longest = std::size_t{1} << 40;  // upper bound of the length of a sequence
  static const std::vector<analysis::DistanceBin> bins = analysis::distance_bins(longest);
  return bins;
}

struct HeadDistanceSums {
  std::uint64_t rows = 0;
  std::vector<WeightSums> bins;  // over pairs of a query and a visible key, up to the last bin with a pair

  void merge(const HeadDistanceSums& other) {
    rows += other.rows;
    bins.resize(std::max(bins.size(), other.bins.size()));
    for (std::size_t b = 0; b < other.bins.size(); ++b) merge_state(bins[b], other.bins[b]);
  }
  void save(StateWriter& out) const {
    out.number(rows);
    save_list(out, bins);
  }
  void load(StateReader& in) {
    rows = in.number();
    load_list(in, bins);
    if (bins.size() > all_bins().size()) in.damaged("there are too many bins of distances");
  }
};

/// Returns the nulls of the distance bins, up to the last bin with a visible pair.
UniformNulls bin_nulls(const StudyPanel& panel) {
  UniformNulls nulls;
  const std::vector<analysis::DistanceBin>& bins = all_bins();
  for (const analysis::PatternRow& row : panel.rows) {
    const std::size_t n = row.weights.size();
    const std::size_t query = row.query;
    const auto visible = static_cast<double>(panel.visible.count(query));
    for (std::size_t b = 0; b < bins.size(); ++b) {
      const analysis::DistanceBin bin = bins[b];
      if (bin.first > query && query + bin.first >= n) break;
      std::size_t pairs = 0;
      if (bin.first <= query)
        pairs += panel.visible.count(query, query - std::min(bin.last, query), query - bin.first + 1);
      if (bin.first > 0 && query + bin.first < n)
        pairs += panel.visible.count(query, query + bin.first, std::min(query + bin.last + 1, n));
      if (pairs == 0) continue;
      if (nulls.size() <= b) nulls.resize(b + 1);
      nulls[b].rows += pairs;
      nulls[b].null += static_cast<double>(pairs) / visible;
    }
  }
  return nulls;
}

class DistanceMeasure final : public PerHead<HeadDistanceSums> {
 public:
  explicit DistanceMeasure(const StudyShape& shape) : PerHead(shape) {}

  void panel(const StudyPanel& panel) override {
    if (panel.rows.empty()) return;
    HeadDistanceSums& state = states_[panel.head];
    state.rows += panel.rows.size();
    const std::size_t n = std::max(panel.panel.pattern.cols, panel.rows.back().query + 1);
    diagonals_.assign(2 * n - 1, 0);
    double* const main_diagonal = diagonals_.data() + (n - 1);
    for (const analysis::PatternRow& row : panel.rows) {
      double* const to = main_diagonal + row.visible.first - row.query;
      const float* const from = row.weights.data() + row.visible.first;
      for (std::size_t j = 0; j < row.visible.size(); ++j) to[j] += static_cast<double>(from[j]);
    }
    const UniformNulls& nulls = nulls_.of(panel, [&] { return bin_nulls(panel); });
    if (state.bins.size() < nulls.size()) state.bins.resize(nulls.size());
    for (std::size_t b = 0; b < nulls.size(); ++b) {
      const analysis::DistanceBin bin = all_bins()[b];
      double weight = 0;
      for (std::size_t distance = bin.first; distance <= std::min(bin.last, n - 1); ++distance) {
        weight += *(main_diagonal + distance);
        if (distance > 0) weight += *(main_diagonal - distance);
      }
      state.bins[b].add(nulls[b].rows, weight, nulls[b].null);
    }
  }
  void finish(StudyResults& results) const override {
    const std::vector<Column> columns = {"component", "layer", "head",  "name",   "rows",
                                         "first",     "last",  "pairs", "weight", "uniform"};
    std::vector<std::vector<Cell>> rows;
    List items;  // one record per head, with lists over its bins for the columns after `rows`
    for (std::size_t h = 0; h < states_.size(); ++h) {
      const HeadDistanceSums& state = states_[h];
      const std::vector<Cell> head = row_of(shape_.head_cells(h), state.rows);
      std::vector<List> lists(columns.size());
      for (std::size_t b = 0; b < state.bins.size(); ++b) {
        const auto [first, last] = all_bins()[b];
        const WeightSums& sums = state.bins[b];
        rows.push_back(row_of(head, first, last, sums.count, mean_cell(sums.weight.value(), state.rows),
                              mean_cell(sums.uniform.value(), state.rows)));
        for (std::size_t i = head.size(); i < columns.size(); ++i) lists[i].emplace_back(rows.back()[i]);
      }
      Record record;
      for (std::size_t i = 0; i < columns.size(); ++i)
        record.set(columns[i], i < head.size() ? Value(head[i]) : Value(std::move(lists[i])));
      items.emplace_back(std::move(record));
    }
    results.document.sections.push_back({"distance", "distance", std::move(items)});
    results.tables.push_back(make_table("distance", columns, std::move(rows)));
  }

 private:
  PerPanel<UniformNulls> nulls_;
  /// Sums of a panel's weights for each offset (key minus query position), starting at 1 - n.
  std::vector<double> diagonals_;
};

}  // namespace

MeasureRow metrics_measure() {
  static const std::vector<Definition> metrics = [] {
    std::vector<Definition> all;
    for (const analysis::RowMetric& row : analysis::row_metrics()) all.push_back(row.about);
    all.push_back({"metric", "", "", "", "a metric; the other columns describe its values over rows"});
    all.insert(all.end(), {{"minimum", "", "", "", "smallest value of a row"},
                           {"q05", "", "", "", "5 % quantile of the values of rows"},
                           {"q25", "", "", "", "25 % quantile of the values of rows"},
                           {"median", "", "", "", "median of the values of rows"},
                           {"q75", "", "", "", "75 % quantile of the values of rows"},
                           {"q95", "", "", "", "95 % quantile of the values of rows"},
                           {"maximum", "", "", "", "largest value of a row"}});
    return all;
  }();
  return {
      .name = "metrics",
      .description = "the row metrics of analyze: entropy, confidence, distance, previous token, ...",
      // The state has one QuantityMoments per row metric: increase the version when the row metrics change.
      .version = 1,
      .make = make_measure<MetricsMeasure>,
      .definitions = metrics};
}

MeasureRow positional_measure() {
  return {.name = "positional",
          .description = "mean weight and share of largest weights at each offset (key minus query), -8 to 8",
          .make = make_measure<PositionalMeasure>,
          .definitions = kPositionalDefinitions};
}

MeasureRow distance_measure() {
  return {.name = "distance",
          .description = "weight by distance between query and key, in bins 0, 1, 2, 3-4, 5-8, ...",
          .make = make_measure<DistanceMeasure>,
          .definitions = kDistanceDefinitions};
}

}  // namespace attnctl::study

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "analysis/patterns/distance_profile.hpp"
#include "study/measures/measures.hpp"
#include "study/measures/per_panel.hpp"
#include "study/state/moments.hpp"

namespace attnctl {
namespace {

constexpr std::array kMetrics = {
    Metric{"distance.weight", "", "[0, 1]", "uniform: the same of even weights over the visible keys",
           "mean over rows of the weight on keys whose distance |i - j| lies in the bin",
           "Vig and Belinkov 2019"},
};

constexpr std::size_t kLongest = std::size_t{1} << 40;  // upper bound of the length of a sequence

const std::vector<DistanceBin>& all_bins() {
  static const std::vector<DistanceBin> bins = distance_bins(kLongest);
  return bins;
}

/// Sums of one distance bin over all rows.
struct BinSums {
  std::uint64_t pairs = 0;  // pairs of a query and a visible key
  BlockSum weight, uniform;
};

struct HeadDistanceSums {
  std::uint64_t rows = 0;
  std::vector<BinSums> bins;  // up to the last bin with a pair

  void merge(const HeadDistanceSums& other) {
    rows += other.rows;
    bins.resize(std::max(bins.size(), other.bins.size()));
    for (std::size_t b = 0; b < other.bins.size(); ++b) {
      bins[b].pairs += other.bins[b].pairs;
      bins[b].weight.merge(other.bins[b].weight);
      bins[b].uniform.merge(other.bins[b].uniform);
    }
  }
  void save(StateWriter& out) const {
    out.number(rows);
    out.number(bins.size());
    for (const BinSums& bin : bins) {
      out.number(bin.pairs);
      bin.weight.save(out);
      bin.uniform.save(out);
    }
  }
  void load(StateReader& in) {
    rows = in.number();
    bins.assign(in.count(), {});
    if (bins.size() > all_bins().size()) in.damaged("more bins of distances than there are");
    for (BinSums& bin : bins) {
      bin.pairs = in.number();
      bin.weight.load(in);
      bin.uniform.load(in);
    }
  }
};

/// Pairs and uniform attention of one bin, for the rows of a panel.
struct BinNull {
  std::uint64_t pairs = 0;
  double uniform = 0;
};

/// Returns the uniform baseline of each bin, up to the last bin with a pair.
std::vector<BinNull> bin_nulls(const StudyPanel& panel) {
  std::vector<BinNull> nulls;
  const std::vector<DistanceBin>& bins = all_bins();
  for (const PatternRow& row : panel.rows) {
    const std::size_t n = row.weights.size();
    const std::size_t query = row.query;
    const auto shown = static_cast<double>(panel.visible.count(query));
    for (std::size_t b = 0; b < bins.size(); ++b) {
      const DistanceBin bin = bins[b];
      if (bin.first > query && query + bin.first >= n) break;
      std::size_t pairs = 0;
      if (bin.first <= query)
        pairs += panel.visible.count(query, query - std::min(bin.last, query), query - bin.first + 1);
      if (bin.first > 0 && query + bin.first < n)
        pairs += panel.visible.count(query, query + bin.first, std::min(query + bin.last + 1, n));
      if (pairs == 0) continue;
      if (nulls.size() <= b) nulls.resize(b + 1);
      nulls[b].pairs += pairs;
      nulls[b].uniform += static_cast<double>(pairs) / shown;
    }
  }
  return nulls;
}

class DistanceMeasure final : public PerHead<HeadDistanceSums> {
 public:
  explicit DistanceMeasure(const StudyShape& shape) : PerHead(shape, {}) {}

  void begin(const StudyBlock& /*block*/) override { nulls_.clear(); }
  void panel(const StudyPanel& panel) override;
  void finish(StudyResults& results) const override;

 private:
  PerPanel<std::vector<BinNull>> nulls_;
  std::vector<double> diagonals_;  // of a panel: sums of weights by j - i, starting at 1 - n
};

void DistanceMeasure::panel(const StudyPanel& panel) {
  if (panel.rows.empty()) return;
  HeadDistanceSums& state = states_[panel.head];
  state.rows += panel.rows.size();
  const std::size_t n = std::max(panel.panel.pattern.cols, panel.rows.back().query + 1);
  diagonals_.assign(2 * n - 1, 0);
  double* const same_place = diagonals_.data() + (n - 1);
  for (const PatternRow& row : panel.rows) {
    double* const to = same_place + row.visible.first - row.query;
    const float* const from = row.weights.data() + row.visible.first;
    for (std::size_t j = 0; j < row.visible.size(); ++j) to[j] += static_cast<double>(from[j]);
  }
  const std::vector<BinNull>& nulls = nulls_.of(panel, [&] { return bin_nulls(panel); });
  if (state.bins.size() < nulls.size()) state.bins.resize(nulls.size());
  for (std::size_t b = 0; b < nulls.size(); ++b) {
    const DistanceBin bin = all_bins()[b];
    double weight = 0;
    for (std::size_t distance = bin.first; distance <= std::min(bin.last, n - 1); ++distance) {
      weight += *(same_place + distance);
      if (distance > 0) weight += *(same_place - distance);
    }
    state.bins[b].pairs += nulls[b].pairs;
    state.bins[b].weight.add(weight);
    state.bins[b].uniform.add(nulls[b].uniform);
  }
}

void DistanceMeasure::finish(StudyResults& results) const {
  std::vector<std::string> columns = StudyShape::head_columns();
  columns.insert(columns.end(), {"first", "last", "pairs", "weight", "uniform"});
  std::vector<std::vector<Cell>> rows;
  List items;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    const HeadDistanceSums& state = states_[h];
    List bins, pairs, weights, uniforms;
    for (std::size_t b = 0; b < state.bins.size(); ++b) {
      const DistanceBin bin = all_bins()[b];
      const auto mean = [&](const BlockSum& sum) {
        return real_cell(sum.value() / static_cast<double>(state.rows));
      };
      const Cell weight = mean(state.bins[b].weight);
      const Cell uniform = mean(state.bins[b].uniform);
      bins.emplace_back(List{Value(bin.first), Value(bin.last)});
      pairs.emplace_back(state.bins[b].pairs);
      weights.emplace_back(weight);
      uniforms.emplace_back(uniform);
      std::vector<Cell>& row = rows.emplace_back(shape_.head_cells(h));
      row.insert(row.end(), {count_cell(bin.first), count_cell(bin.last), count_cell(state.bins[b].pairs),
                             weight, uniform});
    }
    Record record;
    record.set("head", shape_.heads[h].name)
        .set("rows", state.rows)
        .set("bins", std::move(bins))
        .set("pairs", std::move(pairs))
        .set("weight", std::move(weights))
        .set("uniform", std::move(uniforms));
    items.emplace_back(std::move(record));
  }
  results.document.sections.push_back({"distance", "distance", std::move(items)});
  results.tables.push_back(make_table("distance", std::move(columns), std::move(rows)));
}

}  // namespace

std::span<const Metric> distance_metrics() {
  return kMetrics;
}

std::unique_ptr<Measure> make_distance_measure(const StudyShape& shape) {
  return std::make_unique<DistanceMeasure>(shape);
}

}  // namespace attnctl

#include "textbook/diversity.hpp"

#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "textbook/drawn_heads.hpp"

namespace attnctl {
namespace {

CircuitShape shape_of(const DiversityOptions& options) {
  std::vector<std::size_t> own(options.heads);
  std::iota(own.begin(), own.end(), std::size_t{0});
  return {.heads = options.heads,
          .width = options.d_head,
          .left_dimension = options.d,
          .right_dimension = options.d,
          .left_slices = own,
          .right_slices = own};
}

DrawnHeads draw(const DiversityOptions& options, bool specialised, std::size_t number, Pool& pool) {
  DrawnHeads drawn(shape_of(options), options.seed, 2 * number + (specialised ? 1 : 0), pool);
  if (specialised) drawn.specialise(options.gain);
  return drawn;
}

/// One kind of heads over all draws.
struct Kind {
  std::string name;
  std::vector<HeadDiversity> draws;

  /// Returns the mean and deviation over draws of the values that `of` returns.
  template <typename Function>
  [[nodiscard]] Spread spread(const Function& of) const {
    std::vector<double> values;
    for (const HeadDiversity& each : draws) {
      const std::optional<double> value = of(each);
      if (value) values.push_back(*value);
    }
    return spread_of(values);
  }
};

Cell cell_of(const std::optional<double>& value) {
  return value ? Cell(*value) : Cell();
}

/// Returns the mean of a head's similarity to the other heads, or of its magnitude.
std::optional<double> mean_to_others(const HeadDiversity& draw, std::size_t head, bool magnitude) {
  const std::size_t heads = draw.similarity.rows();
  if (heads < 2) return std::nullopt;
  double sum = 0;
  for (std::size_t other = 0; other < heads; ++other) {
    const double value = draw.similarity(head, other);
    if (other != head) sum += magnitude ? std::abs(value) : value;
  }
  return sum / static_cast<double>(heads - 1);
}

Table rows_of(const std::vector<Kind>& kinds, std::size_t heads) {
  std::vector<std::string> columns{"head"};
  for (const Kind& kind : kinds) {
    for (const char* column : {"effective_rank", "similarity", "absolute_similarity"})
      columns.push_back(kind.name + "_" + column);
  }
  std::vector<std::vector<Cell>> rows;
  for (std::size_t head = 0; head < heads; ++head) {
    std::vector<Cell>& row = rows.emplace_back();
    row.emplace_back(static_cast<std::int64_t>(head));
    for (const Kind& kind : kinds) {
      const auto mean = [&](const auto& of) { row.push_back(cell_of(kind.spread(of).mean)); };
      mean([&](const HeadDiversity& draw) { return std::optional(draw.effective_ranks[head]); });
      mean([&](const HeadDiversity& draw) { return mean_to_others(draw, head, false); });
      mean([&](const HeadDiversity& draw) { return mean_to_others(draw, head, true); });
    }
  }
  return make_table("rows", std::move(columns), std::move(rows));
}

Record summary_of(const std::vector<Kind>& kinds) {
  Record summary;
  for (const Kind& kind : kinds) {
    const auto add = [&](const char* name, const Spread& spread) {
      summary.set(kind.name + "_" + name, cell_of(spread.mean))
          .set(kind.name + "_" + name + "_deviation", cell_of(spread.deviation));
    };
    add("effective_rank",
        kind.spread([](const HeadDiversity& draw) { return std::optional(draw.mean_rank); }));
    add("mean_similarity", kind.spread([](const HeadDiversity& draw) { return draw.off_diagonal.mean; }));
    add("mean_absolute_similarity",
        kind.spread([](const HeadDiversity& draw) { return draw.off_diagonal.mean_abs; }));
  }
  return summary;
}

Heatmap heatmap_of(const Kind& kind) {
  const OwnedMatrix<double>& similarity = kind.draws.front().similarity;
  Heatmap map;
  map.title = kind.name;
  map.x_axis = map.y_axis = "Head";
  for (std::size_t head = 0; head < similarity.rows(); ++head)
    map.x_labels.push_back(fmt::format("Head {}", head));
  map.y_labels = map.x_labels;
  map.values = make_array({similarity.rows(), similarity.cols()},
                          std::vector<double>(similarity.values().begin(), similarity.values().end()));
  return map;
}

}  // namespace

ExperimentResult diversity_experiment(const DiversityOptions& options, Pool& pool) {
  std::vector<Kind> kinds{{"random", {}}, {"specialised", {}}};
  for (std::size_t number = 0; number < options.draws; ++number) {
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      const DrawnHeads drawn = draw(options, kind == 1, number, pool);
      kinds[kind].draws.push_back(measure(drawn, options.heads, pool));
    }
  }
  ExperimentResult result;
  result.name = "diversity";
  result.seed = options.seed;
  result.parameters.set("d", options.d)
      .set("heads", options.heads)
      .set("d_head", options.d_head)
      .set("gain", options.gain)
      .set("draws", options.draws);
  result.rows = rows_of(kinds, options.heads);
  result.summary = summary_of(kinds);
  result.charts = {{.title = "Effective rank",
                    .x = "head",
                    .y = {"random_effective_rank", "specialised_effective_rank"},
                    .x_axis = "Head",
                    .y_axis = "Effective rank"},
                   {.title = "Mean magnitude of the similarity to other heads",
                    .x = "head",
                    .y = {"random_absolute_similarity", "specialised_absolute_similarity"},
                    .x_axis = "Head",
                    .y_axis = "Similarity",
                    .bars = true}};
  result.heatmaps = {{"similarity",
                      {.title = "Head Subspace Similarity",
                       .scale = {.label = "Subspace Correlation"},
                       .columns = 2,
                       .heatmaps = {heatmap_of(kinds[0]), heatmap_of(kinds[1])}}}};
  return result;
}

std::vector<NamedArray> diversity_weights(const DiversityOptions& options, bool specialised, Pool& pool) {
  const DrawnHeads drawn = draw(options, specialised, 0, pool);
  const Shape shape{options.heads, options.d, options.d_head};
  return {{"W_q", make_array(shape, drawn.left())}, {"W_k", make_array(shape, drawn.right())}};
}

}  // namespace attnctl

#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <xtensor/xnorm.hpp>

#include "analysis/head_axes.hpp"
#include "linalg/gemm.hpp"
#include "linalg/matrix.hpp"
#include "textbook/experiments.hpp"
#include "textbook/parts.hpp"

namespace attnctl::textbook {
constexpr Definition kDistanceColumns[] = {
    {"distance", "tokens", "from 1", "", "distance of the query from the event, the first token"},
    {"weight", "", "[0, 1]", "uniform", "weight on the event; with --model, mean weight of the pairs"},
    {"influence", "", "[0, inf)", "",
     "|change of z| / |change of the event's value|; of models, mean a_ij |f(x_j)|", "Kobayashi et al. 2020"},
    {"uniform", "", "[0, 1]", "", "weight with uniform attention"},
    {"recurrent_steps", "", "", "", "steps of a recurrent network from the event to the query"},
    {"recurrent_influence", "", "[0, 1]", "", "influence of the event after recurrent_steps"},
    {"window_layers", "", "", "", "smallest number of layers of local attention that reach the event"},
    {"window_influence", "", "[0, 1]", "", "influence of the event after window_layers"},
    {"from", "tokens", "from 0", "", "smallest distance |query - key| of the bin"},
    {"to", "tokens", "from 0", "", "largest distance of the bin"},
    {"pairs", "", "", "", "number of pairs of a query and a visible key in the bin"},
    {"share", "", "[0, 1]", "uniform_share", "weight on the keys of the bin, mean over queries"},
    {"uniform_share", "", "[0, 1]", "", "share with uniform attention"},
    {"influence_share", "", "[0, 1]", "", "sum of a_ij |f(x_j)| in the bin / sum over all bins"},
};

namespace {

using linalg::Matrix;
using linalg::Vector;

Vector normal_vector(Random& random, std::size_t size) {
  Vector values = Vector::from_shape({size});
  for (double& value : values) value = random.normal();
  return values;
}

Vector unit(const Vector& values) {
  return values / xt::norm_l2(values)();
}

OwnedMatrix<double> outer(double gain, const Vector& a, const Vector& b) {
  return linalg::to_owned(gain * xt::view(a, xt::all(), xt::newaxis()) * b);
}

auto first_rows(const Matrix& matrix, std::size_t count) {
  return xt::view(matrix, xt::range(std::size_t{0}, count));
}

/// Returns z, the weighted sum of the values. The tokens after the last weight have weight 0.
Vector weighted_sum(const Vector& weights, const Matrix& values) {
  return xt::sum(xt::view(weights, xt::all(), xt::newaxis()) * first_rows(values, weights.size()), {0});
}

/// Returns the share of the first token in each output of a layer, [n]. Each token attends uniformly to
/// itself and the window - 1 tokens before it, or to all tokens before it if there are fewer. `held` has the
/// shares in the inputs of the layer.
std::vector<double> after_local_layer(const std::vector<double>& held, std::size_t window) {
  std::vector<double> next(held.size());
  for (std::size_t i = 0; i < next.size(); ++i) {
    const std::size_t first = i + 1 < window ? 0 : i + 1 - window;
    for (std::size_t j = first; j <= i; ++j) next[i] += held[j] / static_cast<double>(i - first + 1);
  }
  return next;
}

/// The sums for one line of a chart: of a head, or of all selected heads of a layer.
struct Line : analysis::HeadDistances {
  std::string name;
};

/// The cells of one distance bin: weight, uniform, share, uniform_share, influence, influence_share.
using BinMeans = std::array<Cell, 6>;
constexpr std::size_t kWeight = 0, kInfluence = 4;

BinMeans means_of(const Line& line, std::size_t bin) {
  const analysis::DistanceSums& sums = line.bins[bin];
  if (sums.pairs == 0) return {};
  if (!line.finite) {
    const Cell lost = std::numeric_limits<double>::quiet_NaN();
    const Cell influence = line.has_values ? lost : Cell();
    return {lost, lost, lost, lost, influence, influence};
  }
  const auto pairs = static_cast<double>(sums.pairs);
  const auto rows = static_cast<double>(line.rows);
  BinMeans means = {sums.weight / pairs, sums.uniform / pairs, sums.weight / rows, sums.uniform / rows};
  if (!line.has_values) return means;
  double whole = 0;
  for (const analysis::DistanceSums& each : line.bins) whole += each.influence;
  means[kInfluence] = sums.influence / pairs;
  if (whole > 0) means[kInfluence + 1] = sums.influence / whole;
  return means;
}

Table drawn_table(std::span<const Line> lines, std::span<const analysis::DistanceBin> bins) {
  std::vector<Column> columns = {"distance"};
  for (const Line& line : lines) columns.push_back(line.name);
  for (const Line& line : lines) columns.push_back("influence, " + line.name);
  CellRows rows;
  for (std::size_t b = 0; b < bins.size(); ++b) {
    std::vector<Cell>& row = rows.emplace_back(1, count_cell(bins[b].last));
    for (const Line& line : lines) row.push_back(means_of(line, b)[kWeight]);
    for (const Line& line : lines) row.push_back(means_of(line, b)[kInfluence]);
  }
  return make_table("lines", std::move(columns), std::move(rows));
}

void add_charts(std::span<const Line> lines, bool by_head, ExperimentResult& result) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t layer = lines[i].head.layer;
    if (i == 0 || (by_head && layer != lines[i - 1].head.layer)) {
      const std::string of = by_head ? " in layer " + std::to_string(layer) : "";
      result.add_chart("Weight by distance" + of, {}, "Mean weight of a pair", Drawing::log_log);
      result.add_chart("Influence by distance" + of, {}, "Mean influence of a pair", Drawing::log_log);
    }
    result.charts[result.charts.size() - 2].y.push_back(lines[i].name);
    result.charts.back().y.push_back("influence, " + lines[i].name);
  }
}

}  // namespace

BuiltHead build_head(const DistanceOptions& options) {
  Random random(options.seed);
  const Vector asks = unit(normal_vector(random, options.d));
  const Vector other = normal_vector(random, options.d);
  const Vector event = unit(other - xt::sum(other * asks)() * asks);  // orthogonal to `asks`
  const Vector direction = unit(normal_vector(random, options.d_k));
  const double gain = std::sqrt(options.strength * std::sqrt(static_cast<double>(options.d_k)));
  const double deviation = 1 / std::sqrt(static_cast<double>(options.d));

  BuiltHead head;
  head.query = outer(gain, asks, direction);
  head.key = outer(gain, event, direction);
  head.value = random_matrix(options.d, options.d_k, deviation, random);
  head.x = OwnedMatrix<double>(options.n, options.d);
  for (std::size_t j = 0; j < options.n; ++j) {
    for (std::size_t c = 0; c < options.d; ++c) {
      head.x(j, c) = asks(c) + (j == 0 ? event(c) : 0) + options.noise * deviation * random.normal();
    }
  }
  return head;
}

ExperimentResult distance_experiment(const DistanceOptions& options) {
  ExperimentResult result{.name = "distance", .seed = options.seed, .x = "distance", .x_axis = "Distance"};
  result.parameters.set("n", options.n)
      .set("d", options.d)
      .set("d_k", options.d_k)
      .set("strength", options.strength)
      .set("noise", options.noise)
      .set("window", options.window)
      .set("decay", options.decay);
  const BuiltHead head = build_head(options);
  const auto project = [&](const OwnedMatrix<double>& weight) {
    return linalg::to_matrix(linalg::product(head.x.view(), weight.view()).view());
  };
  const Matrix q = project(head.query);
  const Matrix k = project(head.key);
  const Matrix v = project(head.value);
  Matrix changed = v;  // the value of the first token changed by a unit vector
  changed(0, 0) += 1;
  const double scale = 1 / std::sqrt(static_cast<double>(options.d_k));
  std::size_t layers = 0;               // layers of local attention so far
  std::vector<double> held(options.n);  // share of the first token in each token after these layers
  held[0] = 1;
  std::vector<std::size_t> distances;
  for (std::size_t distance = 1; distance < options.n - 1; distance *= 2) distances.push_back(distance);
  distances.push_back(options.n - 1);
  CellRows rows;
  for (const std::size_t distance : distances) {
    // The weights of the query at this distance on the tokens from the event (token 0) to the query itself.
    Vector row = xt::sum(scale * xt::view(q, distance) * first_rows(k, distance + 1), {1});
    softmax({row.data(), row.size()});
    // The smallest number of layers through which the query sees the first token.
    const std::size_t layers_needed = (distance + options.window - 2) / (options.window - 1);
    for (; layers < layers_needed; ++layers) held = after_local_layer(held, options.window);
    rows.push_back({count_cell(distance), row(0),
                    xt::norm_l2(weighted_sum(row, changed) - weighted_sum(row, v))(),
                    1 / static_cast<double>(distance + 1), count_cell(distance),
                    std::pow(options.decay, static_cast<double>(distance)) * (1 - options.decay),
                    count_cell(layers), held[distance]});
  }
  result.summary.set("weight_from_n_to_1", rows.back()[1])
      .set("steps", 1)
      .set("score_margin_for_0.9", std::log(9 * static_cast<double>(options.n - 1)));
  result.rows = make_table("rows", {kDistanceColumns, kDistanceColumns + 8}, rows);
  result.conclusion =
      fmt::format("At distance {}, the influence is {:.3g}, and with uniform attention {:.3g}.",
                  distances.back(), std::get<double>(rows.back()[2]), std::get<double>(rows.back()[3]));
  constexpr double least_drawn = 1e-6;  // of the influences, which are at most about 1
  for (std::vector<Cell>& row : rows) {
    for (Cell& cell : row) {
      if (number_of(cell) < least_drawn) cell = {};
    }
  }
  result.drawn = make_table("drawn", {kDistanceColumns, kDistanceColumns + 8}, std::move(rows));
  result.add_chart("Influence on the query",
                   {"influence", "uniform", "recurrent_influence", "window_influence"},
                   fmt::format("Influence (below {} not shown)", least_drawn), Drawing::log_log);
  result.add_chart("Number of steps", {"recurrent_steps", "window_layers"}, "Steps or layers",
                   Drawing::log_log);
  return result;
}

ExperimentResult distance_of_model(const model::ModelConfig& config,
                                   std::span<const analysis::HeadDistances> heads,
                                   std::span<const analysis::DistanceBin> bins, bool by_head) {
  ExperimentResult result{.name = "distance", .x = "distance", .x_axis = "Distance (end of the bin)"};
  std::vector<Line> lines;
  for (const analysis::HeadDistances& each : heads) {
    if (by_head || lines.empty() || lines.back().head.layer != each.head.layer) {
      lines.push_back({each, by_head ? "head " + model::head_name(config, each.head)
                                     : "layer " + model::layer_name(config, each.head.layer)});
      continue;
    }
    Line& line = lines.back();
    line.rows += each.rows;
    line.finite = line.finite && each.finite;
    line.has_values = line.has_values && each.has_values;
    for (std::size_t b = 0; b < bins.size(); ++b) line.bins[b] += each.bins[b];
  }
  CellRows rows;
  analysis::DistanceSums near;  // pairs with the distance 0 or 1
  for (const Line& line : lines) {
    for (std::size_t b = 0; b < bins.size(); ++b) {
      if (line.finite && bins[b].last <= 1) near += line.bins[b];
      const BinMeans means = means_of(line, b);
      std::vector<Cell>& row = rows.emplace_back(means.begin(), means.end());
      row.insert(row.begin(),
                 {count_cell(bins[b].first), count_cell(bins[b].last), count_cell(line.bins[b].pairs)});
      std::array<Cell, 4> head = analysis::head_cells(config, line.head);
      if (!by_head) head[2] = head[3] = {};
      row.insert(row.begin(), head.begin(), head.end());
    }
  }
  const std::vector<Column> columns =
      columns_of(kDistanceColumns, {"component", "layer", "head", "name", "from", "to", "pairs", "weight",
                                    "uniform", "share", "uniform_share", "influence", "influence_share"});
  result.rows = make_table("rows", columns, std::move(rows));
  result.conclusion =
      fmt::format("Keys at distance 0 or 1 have {:.3g} times their weight in uniform attention.",
                  near.weight / near.uniform);
  result.drawn = drawn_table(lines, bins);
  add_charts(lines, by_head, result);
  return result;
}

}  // namespace attnctl::textbook

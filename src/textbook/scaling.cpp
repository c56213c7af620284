#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <variant>

#include "analysis/head_axes.hpp"
#include "textbook/experiments.hpp"
#include "textbook/parts.hpp"

namespace attnctl::textbook {
constexpr Definition kScalingColumns[] = {
    {"d_k", "", "", "", "width of queries and keys"},
    {"score_variance", "", "[0, inf)", "", "variance of the scores; with --model, within the rows"},
    {"scaled_score_variance", "", "[0, inf)", "1",
     "variance of the scores after division by sqrt(d_k); with --model, within the rows"},
    {"jacobian_norm", "", "[0, 0.5]", "", "Frobenius norm of the Jacobian of softmax, mean over rows"},
    {"scaled_jacobian_norm", "", "[0, 0.5]", "",
     "Frobenius norm of the Jacobian of softmax with scores divided by sqrt(d_k), mean over rows"},
    {"largest_weight", "", "[1 / keys, 1]", "1 / keys", "largest weight of a row, mean over rows"},
    {"scaled_largest_weight", "", "[1 / keys, 1]", "1 / keys",
     "largest weight of a row with scores divided by sqrt(d_k), mean over rows"},
    {"entropy", "nats", "[0, ln keys]", "ln keys", "entropy of a row of weights, mean over rows"},
    {"scaled_entropy", "nats", "[0, ln keys]", "ln keys",
     "entropy of a row of weights with scores divided by sqrt(d_k), mean over rows"},
    {"queries", "", "", "", "number of queries, with one row of weights each"},
    {"rows", "", "", "", "number of rows with at least two visible keys; the other rows are left out"},
    {"temperature", "", "[0.001, 1000]", "1",
     "T for which rows softmax(g / T) of normal scores g have the mean `entropy`"},
    {"saturated", "", "[0, 1]", "", "share of rows whose largest weight is above --saturation"},
};

namespace {

constexpr std::size_t kQueriesABlock = 16;    // queries per block; the queries of a block share their keys
constexpr std::size_t kFewestQueries = 2048;  // minimum number of queries for each d_k

/// Sums over attention rows: of scores, squared scores, largest weights, entropies and norms of the softmax
/// Jacobians.
using RowSums = std::array<double, 5>;

/// The sums with unscaled scores, then the sums with scaled scores.
using Both = std::array<RowSums, 2>;

void add_row(const std::vector<double>& scores, double scale, RowSums& sums) {
  auto& [score, score_squared, largest, entropy, jacobian] = sums;
  std::vector<double> p = scores;
  for (double& value : p) {
    value *= scale;
    score += value;
    score_squared += value * value;
  }
  softmax(p);
  largest += std::ranges::max(p);
  for (const double w : p) entropy -= w > 0 ? w * std::log(w) : 0;
  jacobian += softmax_jacobian_norm(p);
}

/// Returns "0.500", or "0.500 to 0.800" if the numbers of the column differ.
std::string extent_of(const CellRows& rows, std::size_t column) {
  const auto [low, high] =
      std::ranges::minmax(rows, {}, [&](const auto& row) { return number_of(row[column]); });
  const std::string least = fmt::format("{:.3f}", number_of(low[column]));
  const std::string most = fmt::format("{:.3f}", number_of(high[column]));
  return least == most ? least : least + " to " + most;
}

/// Returns "grows from 0.500 to 0.800" for the first and the last row; "is 0.500" if the numbers are equal.
std::string change_of(const CellRows& rows, std::size_t column) {
  const double first = number_of(rows.front()[column]);
  const double last = number_of(rows.back()[column]);
  if (first == last) return fmt::format("is {:.3f}", last);
  return fmt::format("{} from {:.3f} to {:.3f}", last > first ? "grows" : "falls", first, last);
}

/// Returns the conclusion of scaling_experiment(), whose rows may have any order of d_k.
std::string why_scaled(CellRows rows) {
  constexpr double saturation = 0.9;  // mean largest weight from which softmax is called saturated
  constexpr std::size_t variance = 1, jacobian = 3, largest = 5;  // the next columns: with scaling
  std::ranges::sort(rows, {}, [](const auto& row) { return number_of(row[0]); });
  const double low = number_of(rows.front()[0]);
  const double high = number_of(rows.back()[0]);
  auto smaller = rows.size();  // the rows from here on have a smaller Jacobian without scaling
  while (smaller > 0 && number_of(rows[smaller - 1][jacobian]) < number_of(rows[smaller - 1][jacobian + 1]))
    --smaller;
  const std::string sizes =
      low < high ? fmt::format("From d_k {} to {}", low, high) : fmt::format("At d_k {}", high);
  const std::string gradients =
      smaller < rows.size()
          ? fmt::format("From d_k {} on, the gradient is smaller", number_of(rows[smaller][0]))
          : fmt::format("Up to d_k {}, the gradient is not yet smaller", high);
  return fmt::format(
      "{}, the variance of the scores {}; if scores are divided by sqrt(d_k), it is {}. Without scaling, the "
      "mean "
      "largest weight {}{}; with scaling, it is {}. {} without scaling: at d_k {}, the norm of the Jacobian "
      "of "
      "softmax, through which gradients flow, is {:.3f} without scaling and {:.3f} with scaling.",
      sizes, change_of(rows, variance), extent_of(rows, variance + 1), change_of(rows, largest),
      number_of(rows.back()[largest]) > saturation ? ", so softmax saturates" : "",
      extent_of(rows, largest + 1), gradients, high, number_of(rows.back()[jacobian]),
      number_of(rows.back()[jacobian + 1]));
}

/// Leaves out heads without a temperature, and layers that have only such heads.
Table by_layer(std::span<const analysis::HeadTemperature> heads) {
  std::map<std::size_t, std::vector<double>> layers;
  for (const analysis::HeadTemperature& each : heads) {
    if (each.temperature) layers[each.head.layer].push_back(*each.temperature);
  }
  CellRows rows;
  for (const auto& [layer, temperatures] : layers) {
    const auto [low, high] = std::ranges::minmax(temperatures);
    const double sum = std::accumulate(temperatures.begin(), temperatures.end(), 0.0);
    rows.push_back({count_cell(layer), low, sum / static_cast<double>(temperatures.size()), high});
  }
  return make_table("lines", {"layer", "sharpest head", "mean of the heads", "softest head"},
                    std::move(rows));
}

}  // namespace

double softmax_jacobian_norm(std::span<const double> p) {
  double squares = 0;
  double cubes = 0;
  for (const double w : p) {
    squares += w * w;
    cubes += w * w * w;
  }
  return std::sqrt(std::max(0.0, squares - 2 * cubes + squares * squares));
}

ExperimentResult scaling_experiment(const ScalingOptions& options, Pool& pool) {
  ExperimentResult result{.name = "scaling", .seed = options.seed, .x = "d_k", .x_axis = "d_k"};
  result.parameters.set("d_k", options.d_k).set("keys", options.keys).set("components", options.components);
  CellRows rows;
  std::uint64_t stream = 0;
  for (const std::size_t d_k : options.d_k) {
    const std::size_t blocks = std::max(options.components / d_k, kFewestQueries) / kQueriesABlock;
    std::vector<Both> sums(blocks);
    pool.run(blocks, [&](std::size_t task, std::size_t /*worker*/) {
      Random random(options.seed, stream + task);
      const OwnedMatrix<double> keys = random_matrix(options.keys, d_k, 1, random);
      std::vector<double> query(d_k);
      std::vector<double> scores(options.keys);
      for (std::size_t q = 0; q < kQueriesABlock; ++q) {
        for (double& value : query) value = random.normal();
        for (std::size_t j = 0; j < options.keys; ++j) scores[j] = dot(query, keys.view().row(j));
        add_row(scores, 1, sums[task][0]);
        add_row(scores, 1 / std::sqrt(static_cast<double>(d_k)), sums[task][1]);
      }
    });
    stream += blocks;
    const std::size_t queries = blocks * kQueriesABlock;
    const auto n = static_cast<double>(queries);
    const double scores = n * static_cast<double>(options.keys);
    std::vector<Cell>& row = rows.emplace_back();
    row = {count_cell(d_k)};
    std::array<std::array<double, 4>, 2> means{};  // without and with scaling
    for (std::size_t scale = 0; scale < 2; ++scale) {
      RowSums total{};
      for (const Both& each : sums) std::ranges::transform(total, each[scale], total.begin(), std::plus());
      const auto& [score, score_squared, largest, entropy, jacobian] = total;
      const double mean = score / scores;
      means[scale] = {score_squared / scores - mean * mean, jacobian / n, largest / n, entropy / n};
    }
    for (std::size_t i = 0; i < means[0].size(); ++i) row.insert(row.end(), {means[0][i], means[1][i]});
    row.push_back(count_cell(queries));
  }
  result.rows = make_table("rows", {kScalingColumns, kScalingColumns + 10}, rows);
  double worst = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    worst = std::max(worst, std::abs(number_of(rows[i][1]) / static_cast<double>(options.d_k[i]) - 1));
  result.summary.set("variance_relative_error", worst)
      .set("uniform_entropy", std::log(static_cast<double>(options.keys)))
      .set("jacobian_ratio", number_of(rows.back()[4]) / number_of(rows.back()[3]));
  result.conclusion = why_scaled(std::move(rows));
  result.add_chart("Variance of the scores", {"score_variance", "scaled_score_variance"}, "Variance",
                   Drawing::log_log);
  result.add_chart("Entropy of the rows", {"entropy", "scaled_entropy"}, "Entropy (nats)", Drawing::log_x);
  result.add_chart("Largest weight", {"largest_weight", "scaled_largest_weight"}, "Mean largest weight",
                   Drawing::log_x);
  result.add_chart("Norm of the softmax Jacobian", {"jacobian_norm", "scaled_jacobian_norm"},
                   "Frobenius norm", Drawing::log_x);
  return result;
}

ExperimentResult scaling_of_model(const model::ModelConfig& config,
                                  std::span<const analysis::HeadTemperature> heads) {
  ExperimentResult result{.name = "scaling", .x = "layer", .x_axis = "Layer"};
  CellRows rows;
  const analysis::HeadTemperature* sharpest = nullptr;
  std::size_t known = 0;
  std::size_t sharper = 0;
  for (const analysis::HeadTemperature& each : heads) {
    const auto head = analysis::head_cells(config, each.head);
    std::vector<Cell>& row = rows.emplace_back(head.begin(), head.end());
    row.insert(row.end(), {count_cell(each.rows), cell_of(each.score_variance), cell_of(each.entropy),
                           cell_of(each.temperature), cell_of(each.saturated)});
    if (!each.temperature) continue;
    ++known;
    if (*each.temperature < 1) ++sharper;
    if (sharpest == nullptr || *each.temperature < *sharpest->temperature) sharpest = &each;
  }
  const std::vector<Column> columns =
      columns_of(kScalingColumns, {"component", "layer", "head", "name", "rows", "score_variance", "entropy",
                                   "temperature", "saturated"});
  result.rows = make_table("rows", columns, std::move(rows));
  result.summary.set("heads", heads.size())
      .set("heads_with_temperature", known)
      .set("heads_below_1", sharper);
  if (sharpest != nullptr) {
    result.summary.set("sharpest_head", model::head_name(config, sharpest->head))
        .set("lowest_temperature", *sharpest->temperature);
  }
  result.conclusion = fmt::format("{} of {} {} a temperature below 1.", sharper,
                                  counted(heads.size(), "head"), sharper == 1 ? "has" : "have");
  result.drawn = by_layer(heads);
  result.add_chart("Effective temperature", {"sharpest head", "mean of the heads", "softest head"},
                   "Temperature (1: unit-variance scores)", Drawing::log_y);
  return result;
}

}  // namespace attnctl::textbook

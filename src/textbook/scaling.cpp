#include "textbook/scaling.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/random.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kQueriesABlock = 16;    // queries per block; they share their keys
constexpr std::size_t kFewestQueries = 2048;  // gives the variance of scores to 2 % at every d_k

/// Sums over query rows for one d_k and one scale.
struct Sums {
  double score = 0, score_squared = 0;
  double largest = 0, entropy = 0, jacobian = 0;

  void operator+=(const Sums& other) {
    score += other.score;
    score_squared += other.score_squared;
    largest += other.largest;
    entropy += other.entropy;
    jacobian += other.jacobian;
  }
};

/// Sums with unscaled and with scaled scores.
using Both = std::array<Sums, 2>;

void softmax(std::vector<double>& row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double& value : row) sum += value = std::exp(value - largest);
  for (double& value : row) value /= sum;
}

void add_row(const std::vector<double>& scores, double scale, Sums& sums) {
  std::vector<double> p = scores;
  for (double& value : p) {
    value *= scale;
    sums.score += value;
    sums.score_squared += value * value;
  }
  softmax(p);
  sums.largest += *std::max_element(p.begin(), p.end());
  for (const double w : p) sums.entropy -= w > 0 ? w * std::log(w) : 0;
  sums.jacobian += softmax_jacobian_norm(p);
}

Both run_block(std::size_t d_k, const ScalingOptions& options, std::uint64_t stream) {
  Random random(options.seed, stream);
  std::vector<double> keys(options.keys * d_k);
  for (double& value : keys) value = random.normal();
  Both both{};
  std::vector<double> query(d_k);
  std::vector<double> scores(options.keys);
  for (std::size_t q = 0; q < kQueriesABlock; ++q) {
    for (double& value : query) value = random.normal();
    for (std::size_t j = 0; j < options.keys; ++j) {
      double sum = 0;
      for (std::size_t c = 0; c < d_k; ++c) sum += query[c] * keys[j * d_k + c];
      scores[j] = sum;
    }
    add_row(scores, 1, both[0]);
    add_row(scores, 1 / std::sqrt(static_cast<double>(d_k)), both[1]);
  }
  return both;
}

void append_cells(std::vector<Cell>& row, const Sums& sums, std::size_t queries, std::size_t keys) {
  const auto rows = static_cast<double>(queries);
  const double scores = rows * static_cast<double>(keys);
  const double mean = sums.score / scores;
  for (const double value : {sums.score_squared / scores - mean * mean, sums.largest / rows,
                             sums.entropy / rows, sums.jacobian / rows}) {
    row.emplace_back(value);
  }
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
  ExperimentResult result;
  result.name = "scaling";
  result.seed = options.seed;
  result.parameters.set("d_k", List(options.d_k.begin(), options.d_k.end()))
      .set("keys", options.keys)
      .set("components", options.components);
  std::vector<std::vector<Cell>> rows;
  std::uint64_t stream = 0;
  for (const std::size_t d_k : options.d_k) {
    const std::size_t blocks = std::max(options.components / d_k, kFewestQueries) / kQueriesABlock;
    std::vector<Both> sums(blocks);
    pool.run(blocks, [&](std::size_t task, std::size_t /*worker*/) {
      sums[task] = run_block(d_k, options, stream + task);
    });
    stream += blocks;
    Both total{};
    for (const Both& each : sums) {
      total[0] += each[0];
      total[1] += each[1];
    }
    const std::size_t queries = blocks * kQueriesABlock;
    std::vector<Cell> row = {static_cast<std::int64_t>(d_k), static_cast<std::int64_t>(queries)};
    append_cells(row, total[0], queries, options.keys);
    append_cells(row, total[1], queries, options.keys);
    rows.push_back(std::move(row));
  }
  result.rows =
      make_table("rows",
                 {"d_k", "queries", "score_variance", "largest_weight", "entropy", "jacobian_norm",
                  "scaled_score_variance", "scaled_largest_weight", "scaled_entropy", "scaled_jacobian_norm"},
                 rows);
  double worst = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double expected = static_cast<double>(options.d_k[i]);
    worst = std::max(worst, std::abs(std::get<double>(rows[i][2]) / expected - 1));
  }
  const std::vector<Cell>& last = rows.back();
  result.summary.set("variance_relative_error", worst)
      .set("uniform_entropy", std::log(static_cast<double>(options.keys)))
      .set("jacobian_ratio", std::get<double>(last[9]) / std::get<double>(last[5]));
  result.charts = {{.title = "Variance of the scores",
                    .x = "d_k",
                    .y = {"score_variance", "scaled_score_variance"},
                    .x_axis = "d_k",
                    .y_axis = "Variance",
                    .log_x = true,
                    .log_y = true},
                   {.title = "Entropy of the rows",
                    .x = "d_k",
                    .y = {"entropy", "scaled_entropy"},
                    .x_axis = "d_k",
                    .y_axis = "Entropy (nats)",
                    .log_x = true},
                   {.title = "Largest weight",
                    .x = "d_k",
                    .y = {"largest_weight", "scaled_largest_weight"},
                    .x_axis = "d_k",
                    .y_axis = "Mean largest weight",
                    .log_x = true},
                   {.title = "Norm of the softmax Jacobian",
                    .x = "d_k",
                    .y = {"jacobian_norm", "scaled_jacobian_norm"},
                    .x_axis = "d_k",
                    .y_axis = "Frobenius norm",
                    .log_x = true}};
  return result;
}

}  // namespace attnctl

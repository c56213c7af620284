#include "textbook/distance.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "textbook/head_forward.hpp"

namespace attnctl {
namespace {

using experiments::product;

std::vector<double> normal_vector(Random& random, std::size_t size) {
  std::vector<double> values(size);
  for (double& value : values) value = random.normal();
  return values;
}

void make_unit(std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  for (double& value : values) value /= std::sqrt(squares);
}

/// Returns a random unit vector orthogonal to the unit vector `to`.
std::vector<double> orthogonal_unit(Random& random, const std::vector<double>& to) {
  std::vector<double> values = normal_vector(random, to.size());
  double along = 0;
  for (std::size_t i = 0; i < to.size(); ++i) along += values[i] * to[i];
  for (std::size_t i = 0; i < to.size(); ++i) values[i] -= along * to[i];
  make_unit(values);
  return values;
}

/// Returns gain a b^T.
OwnedMatrix<double> outer(double gain, const std::vector<double>& a, const std::vector<double>& b) {
  OwnedMatrix<double> matrix(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) matrix(i, j) = gain * a[i] * b[j];
  }
  return matrix;
}

/// The projections of all tokens by the constructed head.
struct Projected {
  OwnedMatrix<double> q, k, v;  // [n, k]
};

/// Returns the causal attention weights of token `query`.
std::vector<double> causal_row(const Projected& projected, std::size_t query) {
  const double scale = 1 / std::sqrt(static_cast<double>(projected.q.cols()));
  std::vector<double> row(query + 1);
  for (std::size_t j = 0; j <= query; ++j) {
    for (std::size_t c = 0; c < projected.q.cols(); ++c)
      row[j] += scale * projected.q(query, c) * projected.k(j, c);
  }
  experiments::softmax(row);
  return row;
}

std::vector<double> mixed(const std::vector<double>& row, const OwnedMatrix<double>& values) {
  std::vector<double> z(values.cols());
  for (std::size_t j = 0; j < row.size(); ++j) {
    for (std::size_t c = 0; c < z.size(); ++c) z[c] += row[j] * values(j, c);
  }
  return z;
}

/// Returns the norm of the change of z if the first value changes by a unit vector.
double influence_of_first(const std::vector<double>& row, Projected& projected) {
  const std::vector<double> before = mixed(row, projected.v);
  const double kept = projected.v(0, 0);
  projected.v(0, 0) += 1;
  const std::vector<double> after = mixed(row, projected.v);
  projected.v(0, 0) = kept;
  double squares = 0;
  for (std::size_t c = 0; c < after.size(); ++c) squares += (after[c] - before[c]) * (after[c] - before[c]);
  return std::sqrt(squares);
}

/// Layers of uniform attention to the last `window` tokens. Tracks each token's share of the first token.
class LocalStack {
 public:
  LocalStack(std::size_t n, std::size_t window) : window_(window), held_(n) { held_[0] = 1; }

  /// Returns the smallest number of layers that reach `distance`.
  [[nodiscard]] std::size_t layers_to(std::size_t distance) const {
    return (distance + window_ - 2) / (window_ - 1);
  }
  /// Returns the share of the token at `distance` after that number of layers. Distances must be ascending.
  double held_at(std::size_t distance) {
    for (; layers_ < layers_to(distance); ++layers_) add_layer();
    return held_[distance];
  }

 private:
  void add_layer() {
    std::vector<double> next(held_.size());
    for (std::size_t i = 0; i < next.size(); ++i) {
      const std::size_t first = i + 1 < window_ ? 0 : i + 1 - window_;
      for (std::size_t j = first; j <= i; ++j) next[i] += held_[j] / static_cast<double>(i - first + 1);
    }
    held_ = std::move(next);
  }

  std::size_t window_;
  std::size_t layers_ = 0;
  std::vector<double> held_;
};

std::vector<std::size_t> distances_to(std::size_t last) {
  std::vector<std::size_t> distances;
  for (std::size_t distance = 1; distance < last; distance *= 2) distances.push_back(distance);
  distances.push_back(last);
  return distances;
}

std::vector<std::vector<Cell>> rows_by_distance(const DistanceOptions& options) {
  const BuiltHead head = build_head(options);
  Projected projected = {product(head.x.view(), head.query.view()), product(head.x.view(), head.key.view()),
                         product(head.x.view(), head.value.view())};
  LocalStack local(options.n, options.window);
  std::vector<std::vector<Cell>> rows;
  for (const std::size_t distance : distances_to(options.n - 1)) {
    const std::vector<double> row = causal_row(projected, distance);
    rows.push_back({static_cast<std::int64_t>(distance), row[0], influence_of_first(row, projected),
                    1 / static_cast<double>(distance + 1), static_cast<std::int64_t>(distance),
                    std::pow(options.decay, static_cast<double>(distance)) * (1 - options.decay),
                    static_cast<std::int64_t>(local.layers_to(distance)), local.held_at(distance)});
  }
  return rows;
}

}  // namespace

BuiltHead build_head(const DistanceOptions& options) {
  Random random(options.seed);
  std::vector<double> asks = normal_vector(random, options.d);
  make_unit(asks);
  const std::vector<double> event = orthogonal_unit(random, asks);
  std::vector<double> direction = normal_vector(random, options.d_k);
  make_unit(direction);
  const double gain = std::sqrt(options.strength * std::sqrt(static_cast<double>(options.d_k)));

  BuiltHead head;
  head.query = outer(gain, asks, direction);
  head.key = outer(gain, event, direction);
  head.value = OwnedMatrix<double>(options.d, options.d_k);
  const double deviation = 1 / std::sqrt(static_cast<double>(options.d));
  for (double& value : head.value.values()) value = deviation * random.normal();
  head.x = OwnedMatrix<double>(options.n, options.d);
  for (std::size_t j = 0; j < options.n; ++j) {
    for (std::size_t c = 0; c < options.d; ++c) {
      head.x(j, c) = asks[c] + (j == 0 ? event[c] : 0) + options.noise * deviation * random.normal();
    }
  }
  return head;
}

ExperimentResult distance_experiment(const DistanceOptions& options) {
  ExperimentResult result;
  result.name = "distance";
  result.seed = options.seed;
  result.parameters.set("n", options.n)
      .set("d", options.d)
      .set("d_k", options.d_k)
      .set("strength", options.strength)
      .set("noise", options.noise)
      .set("window", options.window)
      .set("decay", options.decay);
  std::vector<std::vector<Cell>> rows = rows_by_distance(options);
  result.summary.set("weight_from_n_to_1", rows.back()[1])
      .set("steps", 1)
      .set("score_margin_for_0.9", std::log(9 * static_cast<double>(options.n - 1)));
  result.rows = make_table("rows",
                           {"distance", "weight", "influence", "uniform", "recurrent_steps",
                            "recurrent_influence", "window_layers", "window_influence"},
                           std::move(rows));
  result.charts = {{.title = "What reaches the query",
                    .x = "distance",
                    .y = {"influence", "uniform", "recurrent_influence", "window_influence"},
                    .x_axis = "Distance",
                    .y_axis = "Influence",
                    .log_x = true,
                    .log_y = true},
                   {.title = "In how many steps",
                    .x = "distance",
                    .y = {"recurrent_steps", "window_layers"},
                    .x_axis = "Distance",
                    .y_axis = "Steps or layers",
                    .log_x = true,
                    .log_y = true}};
  return result;
}

}  // namespace attnctl

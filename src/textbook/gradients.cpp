#include "textbook/gradients.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "textbook/gradients_charts.hpp"
#include "textbook/head_forward.hpp"

namespace attnctl {
namespace {

using experiments::head_forward;
using experiments::HeadForward;
using experiments::product;
using experiments::RouteInputs;

OwnedMatrix<double> normal_matrix(Random& random, std::size_t rows, std::size_t cols, double deviation) {
  OwnedMatrix<double> matrix(rows, cols);
  for (double& value : matrix.values()) value = deviation * random.normal();
  return matrix;
}

/// A layer with one scale of the scores.
struct Layer {
  const std::vector<HeadMatrices>& heads;
  const OwnedMatrix<double>& x;         // [n, d]
  const OwnedMatrix<double>& d_output;  // [n, d], G
  double scale = 1;
  std::size_t checks = 0;
};

double dot(const OwnedMatrix<double>& a, const OwnedMatrix<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i) sum += a.values()[i] * b.values()[i];
  return sum;
}

double norm(const OwnedMatrix<double>& a) {
  return std::sqrt(dot(a, a));
}

void add(const OwnedMatrix<double>& from, OwnedMatrix<double>& to) {
  for (std::size_t i = 0; i < to.values().size(); ++i) to.values()[i] += from.values()[i];
}

OwnedMatrix<double> path_of(const HeadGradient& gradient) {
  OwnedMatrix<double> path = gradient.query;
  add(gradient.key, path);
  add(gradient.value, path);
  return path;
}

/// Returns the contribution of one head to L.
double head_loss(const Layer& layer, const HeadMatrices& head, const RouteInputs& x) {
  const HeadForward pass = head_forward(head, x, layer.scale);
  const OwnedMatrix<double> z = product(pass.pattern.view(), pass.value.view());
  return dot(product(z.view(), head.output.view()), layer.d_output);
}

/// The projection whose input is perturbed, or all of them.
enum class Route { query, key, value, all };

/// Returns the largest error of `gradient` compared with fourth-order central differences of `loss`, divided
/// by the largest entry of the gradient. `loss` takes the inputs of the projections.
template <typename Loss>
double worst_error(const Layer& layer, const OwnedMatrix<double>& gradient, Route route, Loss loss) {
  constexpr double step = 1e-4;
  constexpr std::array<std::pair<double, double>, 4> stencil{{{-2, 1}, {-1, -8}, {1, 8}, {2, -1}}};
  double largest = 0;
  for (const double value : gradient.values()) largest = std::max(largest, std::abs(value));
  OwnedMatrix<double> moved = layer.x;
  const auto pick = [&](Route own) {
    return std::as_const(route == own || route == Route::all ? moved : layer.x).view();
  };
  const RouteInputs inputs = {pick(Route::query), pick(Route::key), pick(Route::value)};
  const std::size_t entries = moved.values().size();
  const std::size_t checks = std::min(layer.checks, entries);
  double worst = 0;
  for (std::size_t c = 0; c < checks; ++c) {
    const std::size_t at = c * entries / checks;
    double difference = 0;
    for (const auto& [steps, weight] : stencil) {
      moved.values()[at] = layer.x.values()[at] + steps * step;
      difference += weight * loss(inputs);
    }
    moved.values()[at] = layer.x.values()[at];
    worst = std::max(worst, std::abs(difference / (12 * step) - gradient.values()[at]));
  }
  return largest > 0 ? worst / largest : worst;
}

double check_head(const Layer& layer, const HeadMatrices& head, const HeadGradient& gradient) {
  const auto loss = [&](const RouteInputs& x) { return head_loss(layer, head, x); };
  return std::max({worst_error(layer, gradient.query, Route::query, loss),
                   worst_error(layer, gradient.key, Route::key, loss),
                   worst_error(layer, gradient.value, Route::value, loss)});
}

/// Returns the error of the gradient of the whole layer, with the loss computed from the layer's output.
double check_sum(const Layer& layer, const OwnedMatrix<double>& gradient) {
  return worst_error(layer, gradient, Route::all, [&](const RouteInputs& x) {
    OwnedMatrix<double> output(layer.x.rows(), layer.x.cols());
    for (const HeadMatrices& head : layer.heads) {
      const HeadForward pass = head_forward(head, x, layer.scale);
      const OwnedMatrix<double> z = product(pass.pattern.view(), pass.value.view());
      add(product(z.view(), head.output.view()), output);
    }
    return dot(output, layer.d_output);
  });
}

double mean_largest_weight(const OwnedMatrix<double>& pattern) {
  double sum = 0;
  for (std::size_t i = 0; i < pattern.rows(); ++i) {
    const auto row = pattern.view().row(i);
    sum += *std::max_element(row.begin(), row.end());
  }
  return sum / static_cast<double>(pattern.rows());
}

/// Returns |dL/dx_i| of each token i.
std::vector<double> token_norms(const OwnedMatrix<double>& gradient) {
  std::vector<double> norms;
  for (std::size_t i = 0; i < gradient.rows(); ++i) {
    double squares = 0;
    for (const double value : gradient.view().row(i)) squares += value * value;
    norms.push_back(std::sqrt(squares));
  }
  return norms;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

/// The quantities of one row, for a head or for the layer.
struct Report {
  HeadGradient gradient;
  std::vector<double> query_norms;  // per token, through its query; for the layer: per token and head
  double largest_weight = 0;
  double error = 0;
};

/// Returns the sum of all paths, checked against the gradient of the whole layer.
Report sum_of(const Layer& layer, const std::vector<Report>& heads) {
  Report sum;
  sum.gradient = heads.front().gradient;
  sum.query_norms = heads.front().query_norms;
  sum.largest_weight = heads.front().largest_weight;
  for (std::size_t h = 1; h < heads.size(); ++h) {
    sum.query_norms.insert(sum.query_norms.end(), heads[h].query_norms.begin(), heads[h].query_norms.end());
    add(heads[h].gradient.query, sum.gradient.query);
    add(heads[h].gradient.key, sum.gradient.key);
    add(heads[h].gradient.value, sum.gradient.value);
    sum.largest_weight += heads[h].largest_weight;
  }
  sum.largest_weight /= static_cast<double>(heads.size());
  sum.error = check_sum(layer, path_of(sum.gradient));
  return sum;
}

std::vector<Cell> row_of(std::size_t d_k, double scale, std::optional<std::size_t> head, const Report& report,
                         const OwnedMatrix<double>& whole) {
  const OwnedMatrix<double> path = path_of(report.gradient);
  return {static_cast<std::int64_t>(d_k),
          scale,
          head ? Cell(static_cast<std::int64_t>(*head)) : Cell(),
          norm(path),
          norm(report.gradient.query),
          norm(report.gradient.key),
          norm(report.gradient.value),
          dot(path, whole) / dot(whole, whole),
          median(report.query_norms),
          report.largest_weight,
          report.error};
}

/// Appends the rows of one d_k and scale: the heads, then their sum.
void append_rows(const Layer& layer, std::size_t d_k, Pool& pool, std::vector<std::vector<Cell>>& rows) {
  std::vector<Report> heads(layer.heads.size());
  pool.run(heads.size(), [&](std::size_t h, std::size_t /*worker*/) {
    Report& report = heads[h];
    report.gradient = head_gradient(layer.heads[h], layer.x.view(), layer.d_output.view(), layer.scale);
    report.query_norms = token_norms(report.gradient.query);
    report.largest_weight = mean_largest_weight(report.gradient.pattern);
    report.error = check_head(layer, layer.heads[h], report.gradient);
  });
  const Report sum = sum_of(layer, heads);
  const OwnedMatrix<double> whole = path_of(sum.gradient);
  for (std::size_t h = 0; h < heads.size(); ++h) rows.push_back(row_of(d_k, layer.scale, h, heads[h], whole));
  rows.push_back(row_of(d_k, layer.scale, std::nullopt, sum, whole));
}

std::vector<HeadMatrices> random_heads(const GradientsOptions& options, std::size_t d_k) {
  const double deviation = 1 / std::sqrt(static_cast<double>(options.d));
  const std::size_t d_value = options.d / options.heads;
  std::vector<HeadMatrices> heads;
  for (std::size_t h = 0; h < options.heads; ++h) {
    Random random(options.seed, (std::uint64_t{d_k} << 32) + h + 1);
    HeadMatrices head;
    head.query = normal_matrix(random, options.d, d_k, deviation);
    head.key = normal_matrix(random, options.d, d_k, deviation);
    head.value = normal_matrix(random, options.d, d_value, deviation);
    head.output = normal_matrix(random, d_value, options.d, deviation);
    heads.push_back(std::move(head));
  }
  return heads;
}

}  // namespace

ExperimentResult gradients_experiment(const GradientsOptions& options, Pool& pool) {
  if (options.d % options.heads != 0)
    fail(Status::usage, "--heads {} does not divide --d {}", options.heads, options.d);
  std::vector<std::size_t> sizes = options.d_k;
  if (sizes.empty()) sizes = {options.d / options.heads};
  Random random(options.seed);
  const OwnedMatrix<double> x = normal_matrix(random, options.n, options.d, 1);
  const OwnedMatrix<double> d_output = normal_matrix(random, options.n, options.d, 1);
  std::vector<std::vector<Cell>> rows;
  for (const std::size_t d_k : sizes) {
    const std::vector<HeadMatrices> heads = random_heads(options, d_k);
    for (const double scale : {1.0, 1 / std::sqrt(static_cast<double>(d_k))})
      append_rows({heads, x, d_output, scale, options.checks}, d_k, pool, rows);
  }
  double error = 0;
  for (const std::vector<Cell>& row : rows) error = std::max(error, std::get<double>(row.back()));

  ExperimentResult result;
  result.name = "gradients";
  result.seed = options.seed;
  result.parameters.set("n", options.n)
      .set("d", options.d)
      .set("heads", options.heads)
      .set("d_k", List(sizes.begin(), sizes.end()))
      .set("d_value", options.d / options.heads)
      .set("checks", std::min(options.checks, options.n * options.d));
  experiments::draw_gradients(rows, sizes.size(), result);
  result.rows = make_table("rows", experiments::gradient_columns(), std::move(rows));
  result.summary.set("largest_error", error);
  return result;
}

}  // namespace attnctl

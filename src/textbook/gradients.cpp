#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <set>
#include <variant>

#include "analysis/head_axes.hpp"
#include "base/error.hpp"
#include "base/numbers.hpp"
#include "linalg/gemm.hpp"
#include "textbook/experiments.hpp"
#include "textbook/parts.hpp"

namespace attnctl::textbook {
constexpr Definition kGradientsColumns[] = {
    {"d_k", "", "", "", "width of queries and keys"},
    {"scale", "", "", "", "factor of the scores: 1, or 1/sqrt(d_k)"},
    {"head", "", "from 0", "", "number of the head; empty in rows of tokens and of all heads (text: all)"},
    {"path", "", "[0, inf)", "",
     "norm of the gradient of the loss with respect to the inputs, through this head"},
    {"query", "", "[0, inf)", "", "norm of the part of the gradient of path that flows through the queries"},
    {"key", "", "[0, inf)", "", "norm of the part of the gradient of path that flows through the keys"},
    {"value", "", "[0, inf)", "", "norm of the part of the gradient of path that flows through the values"},
    {"share", "", "sums to 1", "1 / heads", "share of this head in the gradient of all heads"},
    {"query_median", "", "[0, inf)", "",
     "gradient through the queries for a typical token: median of its norm over tokens (all: and heads)"},
    {"largest_weight", "", "[1 / n, 1]", "1 / n", "largest weight of a row, mean over rows"},
    {"error", "", "[0, inf)", "",
     "largest difference from a numerical derivative, divided by the largest |gradient|"},
    {"attribution", "", "", "",
     "rate at which the logit grows if the embedding of the token, or the output of the head, is scaled up"},
    {"gradient", "", "[0, inf)", "",
     "norm of the gradient of the logit with respect to the embedding of the token or the output of the "
     "head"},
};

namespace {

/// The inputs [n, d] of the query, key and value projections. Each is x, or x with one entry changed: the
/// check of a head changes one of the inputs, the check of the layer changes all three.
using RouteInputs = std::array<MatrixView<const double>, 3>;

struct HeadForward {
  OwnedMatrix<double> query, key, value;  // [n, k], [n, k], [n, v]
  OwnedMatrix<double> pattern;            // [n, n]
};

HeadForward run_head(const HeadMatrices& head, const RouteInputs& x, double scale) {
  OwnedMatrix<double> query = linalg::product(x[0], head.query.view());
  OwnedMatrix<double> key = linalg::product(x[1], head.key.view());
  OwnedMatrix<double> pattern = linalg::product_nt(query.view(), key.view(), scale);
  softmax_rows(pattern.view());
  return {std::move(query), std::move(key), linalg::product(x[2], head.value.view()), std::move(pattern)};
}

struct GradientLayer {
  const std::vector<HeadMatrices>& heads;
  const OwnedMatrix<double>& x;         // [n, d]
  const OwnedMatrix<double>& d_output;  // [n, d], dL/dY
  double scale = 1;
  std::size_t checks = 0;
};

double inner(const OwnedMatrix<double>& a, const OwnedMatrix<double>& b) {
  return dot(a.values(), b.values());
}

void add(const OwnedMatrix<double>& from, OwnedMatrix<double>& to) {
  for (std::size_t i = 0; i < to.values().size(); ++i) to.values()[i] += from.values()[i];
}

OwnedMatrix<double> path_of(const HeadGradient& gradient) {
  OwnedMatrix<double> path = gradient.parts[0];
  add(gradient.parts[1], path);
  add(gradient.parts[2], path);
  return path;
}

/// Returns the part of the layer's output that one head adds, [n, d].
OwnedMatrix<double> head_output(const GradientLayer& layer, const HeadMatrices& head, const RouteInputs& x) {
  const HeadForward pass = run_head(head, x, layer.scale);
  return linalg::product(linalg::product(pass.pattern.view(), pass.value.view()).view(), head.output.view());
}

/// Compares `gradient` with fourth-order central differences of `loss` at `layer.checks` evenly spaced
/// entries, or at all entries if there are fewer. Returns the largest absolute difference, divided by the
/// largest magnitude in `gradient` (undivided if that is 0). `loss` takes x with one entry changed.
template <typename Loss>
double worst_error(const GradientLayer& layer, const OwnedMatrix<double>& gradient, Loss loss) {
  constexpr double step = 1e-4;
  constexpr std::array<std::pair<double, double>, 4> stencil{{{-2, 1}, {-1, -8}, {1, 8}, {2, -1}}};
  double largest = 0;
  for (const double value : gradient.values()) largest = std::max(largest, std::abs(value));
  OwnedMatrix<double> moved = layer.x;
  const std::size_t entries = moved.values().size();
  const std::size_t checks = std::min(layer.checks, entries);
  double worst = 0;
  for (std::size_t c = 0; c < checks; ++c) {
    const std::size_t at = c * entries / checks;
    double difference = 0;
    for (const auto& [steps, weight] : stencil) {
      moved.values()[at] = layer.x.values()[at] + steps * step;
      difference += weight * loss(std::as_const(moved).view());
    }
    moved.values()[at] = layer.x.values()[at];
    worst = std::max(worst, std::abs(difference / (12 * step) - gradient.values()[at]));
  }
  return largest > 0 ? worst / largest : worst;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

struct Report {
  HeadGradient gradient;
  /// Norms of dL/dx_i through the query: one per token i, or one per head and token for the layer.
  std::vector<double> query_norms;
  double largest_weight = 0;  // largest weight of a pattern row, mean over the rows
  double error = 0;
};

/// Returns the report of the layer: the sum of the heads' gradients, the query norms of all heads, and the
/// mean of the heads' largest weights. The error is that of the summed gradient.
Report sum_of(const GradientLayer& layer, const std::vector<Report>& heads) {
  Report sum = heads.front();
  for (std::size_t h = 1; h < heads.size(); ++h) {
    sum.query_norms.insert(sum.query_norms.end(), heads[h].query_norms.begin(), heads[h].query_norms.end());
    for (std::size_t i = 0; i < 3; ++i) add(heads[h].gradient.parts[i], sum.gradient.parts[i]);
    sum.largest_weight += heads[h].largest_weight;
  }
  sum.largest_weight /= static_cast<double>(heads.size());
  // Compares with differences of a loss that is computed from the output of the whole layer.
  sum.error = worst_error(layer, path_of(sum.gradient), [&](MatrixView<const double> moved) {
    OwnedMatrix<double> output(layer.x.rows(), layer.x.cols());
    for (const HeadMatrices& head : layer.heads) add(head_output(layer, head, {moved, moved, moved}), output);
    return inner(output, layer.d_output);
  });
  return sum;
}

void append_rows(const GradientLayer& layer, std::size_t d_k, Pool& pool, CellRows& rows) {
  std::vector<Report> heads(layer.heads.size());
  pool.run(heads.size(), [&](std::size_t h, std::size_t /*worker*/) {
    Report& report = heads[h];
    report.gradient = head_gradient(layer.heads[h], layer.x.view(), layer.d_output.view(), layer.scale);
    const MatrixView<const double> query = std::as_const(report.gradient.parts[0]).view();
    for (std::size_t i = 0; i < query.rows; ++i) {
      report.query_norms.push_back(norm(query.row(i)));
      report.largest_weight += std::ranges::max(report.gradient.pattern.view().row(i));
    }
    report.largest_weight /= static_cast<double>(query.rows);
    // To check the gradient through a projection, changes only the input of this projection.
    for (std::size_t i = 0; i < 3; ++i) {
      const double error = worst_error(layer, report.gradient.parts[i], [&](MatrixView<const double> moved) {
        RouteInputs inputs = {layer.x.view(), layer.x.view(), layer.x.view()};
        inputs[i] = moved;
        return inner(head_output(layer, layer.heads[h], inputs), layer.d_output);
      });
      report.error = std::max(report.error, error);
    }
  });
  const Report sum = sum_of(layer, heads);
  const OwnedMatrix<double> whole = path_of(sum.gradient);
  const auto add_row = [&](const Cell& head, const Report& report) {
    const auto& [query, key, value] = report.gradient.parts;
    const OwnedMatrix<double> path = path_of(report.gradient);
    rows.push_back({count_cell(d_k), layer.scale, head, norm(path.values()), norm(query.values()),
                    norm(key.values()), norm(value.values()), inner(path, whole) / inner(whole, whole),
                    median(report.query_norms), report.largest_weight, report.error});
  };
  for (std::size_t h = 0; h < heads.size(); ++h) add_row(count_cell(h), heads[h]);
  add_row(Cell(), sum);
}

std::vector<HeadMatrices> random_heads(const GradientsOptions& options, std::size_t d_k) {
  const double deviation = 1 / std::sqrt(static_cast<double>(options.d));
  const std::size_t d_value = options.d / options.heads;
  std::vector<HeadMatrices> heads;
  for (std::size_t h = 0; h < options.heads; ++h) {
    Random random(options.seed, (std::uint64_t{d_k} << 32) + h + 1);
    HeadMatrices& head = heads.emplace_back();
    head.query = random_matrix(options.d, d_k, deviation, random);
    head.key = random_matrix(options.d, d_k, deviation, random);
    head.value = random_matrix(options.d, d_value, deviation, random);
    head.output = random_matrix(d_value, options.d, deviation, random);
  }
  return heads;
}

/// Fills in the charts and their table. If `sizes`, the number of d_k values, is 1, draws the heads as bars.
/// Otherwise, draws the layer over d_k. For each d_k, `rows` has the heads and the layer with unscaled
/// scores, then the heads and the layer with scaled scores.
void draw_gradients(const CellRows& rows, std::size_t sizes, ExperimentResult& result) {
  constexpr std::array<std::size_t, 4> drawn = {4, 5, 6, 8};  // query, key, value, query_median
  const bool heads = sizes == 1;
  result.x = heads ? "head" : "d_k";
  result.x_axis = heads ? "Head" : "d_k";
  std::vector<Column> columns = {result.x};
  for (const std::size_t column : drawn) {
    columns.emplace_back(kGradientsColumns[column]);
    std::string scaled = fmt::format("{}, scaled", kGradientsColumns[column].name);
    std::ranges::replace(scaled, '_', ' ');
    columns.emplace_back(std::move(scaled));
  }
  CellRows lines;
  const std::size_t half = rows.size() / sizes / 2;  // rows of one d_k and scale, the last for the layer
  const std::size_t end = heads ? half - 1 : rows.size();
  for (std::size_t at = heads ? 0 : half - 1; at < end; at += heads ? 1 : 2 * half) {
    std::vector<Cell>& line = lines.emplace_back(1, rows[at][heads ? 2 : 0]);
    for (const std::size_t column : drawn)
      line.insert(line.end(), {rows[at][column], rows[at + half][column]});
  }
  const auto add_chart = [&](const char* title, std::initializer_list<std::size_t> shown) {
    std::vector<std::string> y;
    for (const std::size_t column : shown) y.push_back(columns[column]);
    result.add_chart(title, std::move(y), "Norm of dL/dx", heads ? Drawing::bars : Drawing::log_log);
  };
  if (heads) {
    add_chart("Unscaled scores", {1, 3, 5});
    add_chart("Scores divided by sqrt(d_k)", {2, 4, 6});
  } else {
    add_chart("Through queries and keys", {1, 2, 3, 4});
    add_chart("Through the query: median token and head", {7, 8});
    add_chart("Through values", {5, 6});
  }
  result.drawn = make_table(heads ? "heads" : "lines", std::move(columns), std::move(lines));
}

/// Returns `logit of "cat" at position 3`, or without a vocabulary `logit of token 28 at position 3`.
std::string logit_name(const LogitAttribution& input) {
  const std::string token =
      input.target_text.empty() ? fmt::format("token {}", input.target) : '"' + input.target_text + '"';
  return fmt::format("logit of {} at position {}", token, input.position);
}

/// Returns the conclusion of gradients_experiment() from the rows of all heads with one d_k: without and with
/// scaling.
std::string scaled_gradients(const std::vector<Cell>& unscaled, const std::vector<Cell>& scaled) {
  const auto change = [&](std::size_t column) {
    const double before = number_of(unscaled[column]);
    const double after = number_of(scaled[column]);
    const char* const how = after < before   ? "smaller"
                            : after > before ? "larger"
                                             : "neither smaller nor larger";
    return fmt::format("{} (norm {:.3g} instead of {:.3g})", how, after, before);
  };
  const bool vanishes = number_of(unscaled[8]) < number_of(scaled[8]);
  return fmt::format(
      "At d_k {}, dividing the scores by sqrt(d_k) makes the gradient of all heads {}, and the gradient "
      "through the queries of a typical token (median) {}. Without scaling, the mean largest weight of a row "
      "is {:.3f}{}.",
      number_of(scaled[0]), change(3), change(8), number_of(unscaled[9]),
      vanishes ? ", and a typical token gets a smaller gradient through its queries"
               : ": softmax does not saturate enough to make this gradient vanish");
}

Record target_of(const LogitAttribution& input) {
  return {{{"input", input.input},
           {"position", input.position},
           {"target", input.target},
           {"target_token", input.target_text.empty() ? Cell() : Cell(input.target_text)},
           {"logit", input.logit}}};
}

void draw_heads(std::span<const LogitAttribution> inputs, ExperimentResult& result) {
  std::set<std::size_t> layers;
  std::size_t heads = 0;
  for (const LogitAttribution& input : inputs) {
    for (const auto& [head, each] : input.heads) {
      layers.insert(head.layer);
      heads = std::max(heads, head.head + 1);
    }
  }
  if (heads == 0) return;
  const auto labels = texts_of(layers, [](std::size_t layer) { return std::to_string(layer); });
  HeatmapPage page{.title = inputs.size() == 1 ? "Attribution to heads: " + logit_name(inputs.front())
                                               : "Attribution of a logit to heads",
                   .scale = {.label = "Gradient x z"},
                   .heatmaps = {}};
  for (const LogitAttribution& input : inputs) {
    std::vector<double> values(layers.size() * heads, kUndefined);
    for (const auto& [head, each] : input.heads) {
      const auto row = static_cast<std::size_t>(std::distance(layers.begin(), layers.find(head.layer)));
      values[row * heads + head.head] = each.attribution;
    }
    page.heatmaps.push_back({fmt::format("Input {}: {}", input.input, logit_name(input)),
                             "Head",
                             "Layer",
                             {},
                             labels,
                             make_tensor({layers.size(), heads}, std::move(values))});
  }
  page.fit_scale();
  result.heatmaps.push_back({"heads", std::move(page)});
}

}  // namespace

HeadGradient head_gradient(const HeadMatrices& head, MatrixView<const double> x,
                           MatrixView<const double> d_output, double scale) {
  HeadForward pass = run_head(head, {x, x, x}, scale);
  const OwnedMatrix<double> d_z = linalg::product_nt(d_output, head.output.view());
  OwnedMatrix<double> d_scores = linalg::product_nt(d_z.view(), pass.value.view());
  // From dL/dpattern to dL/dscores: with the pattern a and the gradient g, a_ij (g_ij - sum_k a_ik g_ik).
  for (std::size_t i = 0; i < d_scores.rows(); ++i) {
    const double mean = dot(pass.pattern.view().row(i), d_scores.view().row(i));
    for (std::size_t j = 0; j < d_scores.cols(); ++j)
      d_scores(i, j) = pass.pattern(i, j) * (d_scores(i, j) - mean);
  }
  const OwnedMatrix<double> d_query = linalg::product(d_scores.view(), pass.key.view(), scale);
  const OwnedMatrix<double> d_key = linalg::product_tn(d_scores.view(), pass.query.view(), scale);
  const OwnedMatrix<double> d_value = linalg::product_tn(pass.pattern.view(), d_z.view());
  return {{linalg::product_nt(d_query.view(), head.query.view()),
           linalg::product_nt(d_key.view(), head.key.view()),
           linalg::product_nt(d_value.view(), head.value.view())},
          std::move(pass.pattern)};
}

ExperimentResult gradients_experiment(const GradientsOptions& options, Pool& pool) {
  if (options.d % options.heads != 0)
    fail(Status::usage, "--heads: got {}, need a divisor of --d {}", options.heads, options.d);
  std::vector<std::size_t> sizes = options.d_k;
  if (sizes.empty()) sizes = {options.d / options.heads};
  Random random(options.seed);
  const OwnedMatrix<double> x = random_matrix(options.n, options.d, 1, random);
  const OwnedMatrix<double> d_output = random_matrix(options.n, options.d, 1, random);
  CellRows rows;
  for (const std::size_t d_k : sizes) {
    const std::vector<HeadMatrices> heads = random_heads(options, d_k);
    for (const double scale : {1.0, 1 / std::sqrt(static_cast<double>(d_k))})
      append_rows({heads, x, d_output, scale, options.checks}, d_k, pool, rows);
  }
  double error = 0;
  for (const std::vector<Cell>& row : rows) error = std::max(error, std::get<double>(row.back()));

  ExperimentResult result{.name = "gradients", .seed = options.seed};
  result.parameters.set("n", options.n)
      .set("d", options.d)
      .set("heads", options.heads)
      .set("d_k", sizes)
      .set("d_value", options.d / options.heads)
      .set("checks", std::min(options.checks, options.n * options.d));
  draw_gradients(rows, sizes.size(), result);
  result.rows = make_table("rows", {kGradientsColumns, kGradientsColumns + 11}, rows);  // rest: of models
  result.summary.set("largest_error", error);
  result.conclusion = scaled_gradients(rows[rows.size() - options.heads - 2], rows.back());
  return result;
}

LogitAttribution attribute(const reference::LogitGradient& gradient, std::span<const model::HeadId> heads) {
  LogitAttribution result;
  result.target = gradient.token;
  result.logit = gradient.logit;
  for (std::size_t j = 0; j < gradient.embedding.rows(); ++j) {
    const auto d_embedding = gradient.d_embedding.view().row(j);
    result.embeddings.push_back({dot(d_embedding, gradient.embedding.view().row(j)), norm(d_embedding)});
  }
  for (const model::HeadId id : heads) {
    const reference::HeadLogitGradient& head = gradient.layers[id.layer][id.head];
    result.heads.push_back({id, {dot(head.d_z.values(), head.z.values()), norm(head.d_z.values())}});
  }
  return result;
}

ExperimentResult gradients_of_model(const model::ModelConfig& config,
                                    std::span<const LogitAttribution> inputs) {
  ExperimentResult result{.name = "gradients", .x = "token", .x_axis = "Token"};
  CellRows rows;
  List targets;
  for (const LogitAttribution& input : inputs) {
    targets.emplace_back(target_of(input));
    for (std::size_t j = 0; j < input.embeddings.size(); ++j) {
      const Attribution& each = input.embeddings[j];
      const Cell token = j < input.tokens.size() && !input.tokens[j].empty() ? Cell(input.tokens[j]) : Cell();
      rows.push_back({input.input, {}, {}, {}, {}, count_cell(j), token, each.attribution, each.gradient});
    }
    for (const auto& [head, each] : input.heads) {
      const auto [component, layer, number, name] = analysis::head_cells(config, head);
      rows.push_back({input.input, component, layer, number, name, {}, {}, each.attribution, each.gradient});
    }
  }
  const std::vector<Column> columns = columns_of(
      kGradientsColumns,
      {"input", "component", "layer", "head", "name", "position", "token", "attribution", "gradient"});
  result.rows = make_table("rows", columns, std::move(rows));
  if (inputs.size() == 1) {
    result.summary = target_of(inputs.front());
  } else {
    result.summary.set("targets", std::move(targets));
  }
  // The chart has the attributions of the tokens of the first input.
  const LogitAttribution& first = inputs.front();
  CellRows bars;
  for (std::size_t j = 0; j < first.embeddings.size(); ++j) {
    bars.push_back(
        {j < first.tokens.size() ? first.tokens[j] : std::to_string(j), first.embeddings[j].attribution});
  }
  const auto most = std::ranges::max_element(bars, {}, [](const auto& bar) { return bar[1]; });
  result.conclusion =
      number_of((*most)[1]) > 0
          ? fmt::format(
                "In input {}, the token \"{}\" at position {} has the largest positive attribution to the "
                "{}.",
                first.input, std::get<std::string>((*most)[0]), most - bars.begin(), logit_name(first))
          : fmt::format("In input {}, no token has a positive attribution to the {}.", first.input,
                        logit_name(first));
  result.drawn = make_table("tokens", {"token", "attribution"}, std::move(bars));
  result.add_chart(fmt::format("Input {}: {}", first.input, logit_name(first)), {"attribution"},
                   "Gradient x embedding", Drawing::bars);
  draw_heads(inputs, result);
  return result;
}

}  // namespace attnctl::textbook

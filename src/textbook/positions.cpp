#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "linalg/matrix.hpp"
#include "textbook/experiments.hpp"
#include "textbook/parts.hpp"

namespace attnctl::textbook {
constexpr Definition kPositionsColumns[] = {
    {"distance", "tokens", "from 0", "", "distance o of two positions p and p + o"},
    {"dot_product", "", "[-d / 2, d / 2]", "", "dot product of the sinusoidal positions, mean over p"},
    {"dot_product_spread", "", "[0, d]", "", "largest difference of a dot product from the mean dot_product"},
    {"rotation_residual", "", "[0, 2]", "",
     "largest element of |PE(p) R(o) - PE(p + o)|; PE: sinusoidal position, R: rotation"},
    {"far_rotation_residual", "", "[0, 2]", "", "rotation_residual of positions from --far on"},
    {"learned_dot_product", "", "", "", "dot product of the learned positions, mean over p"},
    {"learned_dot_product_deviation", "", "[0, inf)", "",
     "standard deviation over p of the dot product of learned positions"},
    {"rotary_kernel", "", "[-1, 1]", "", "mean of cos(o theta) over the frequencies theta", "Su et al. 2021"},
};

namespace {

using linalg::Matrix;
using linalg::Vector;

constexpr std::size_t kDrawnPositions = 128;
constexpr std::size_t kDrawnColumns = 256;

/// Returns 10000^(2i/d) for each pair of columns 2i and 2i+1, [d / 2].
std::vector<double> wavelengths(std::size_t d) {
  std::vector<double> lengths(d / 2);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    lengths[i] = std::pow(10000.0, 2 * static_cast<double>(i) / static_cast<double>(d));
  return lengths;
}

/// Statistics of the dot products of rows p and p + distance, over all p.
struct AtDistance {
  double mean = 0;
  double deviation = 0;  // standard deviation
  double farthest = 0;   // largest absolute difference from the mean
};

AtDistance dots_at(MatrixView<const double> rows, std::size_t distance) {
  Vector dots = Vector::from_shape({rows.rows - distance});
  for (std::size_t p = 0; p < dots.size(); ++p) dots(p) = dot(rows.row(p), rows.row(p + distance));
  const double mean = xt::mean(dots)();
  const Vector off = dots - mean;
  return {mean, std::sqrt(xt::mean(off * off)()), xt::amax(xt::abs(off))()};
}

/// Returns the largest entry of |R PE(p) - PE(p + distance)| over the positions p in the first half of
/// `rows`. The rows are PE of consecutive positions. R is the rotation that turn_positions() applies.
double rotation_residual(const OwnedMatrix<double>& rows, std::size_t distance) {
  const std::size_t count = rows.rows() / 2;
  Matrix turned = linalg::to_matrix(rows.view().row_range(0, count));
  turn_positions({turned.data(), count, rows.cols()}, distance);
  return xt::amax(xt::abs(turned - linalg::to_matrix(rows.view().row_range(distance, count))))();
}

/// Returns the smallest Euclidean distance between two rows; infinity if there is only one row.
double smallest_distance(MatrixView<const double> rows, Pool& pool) {
  std::vector<double> least(rows.rows, std::numeric_limits<double>::infinity());
  pool.run(rows.rows, [&](std::size_t a, std::size_t /*worker*/) {
    for (std::size_t b = 0; b < a; ++b) {
      double squares = 0;
      for (std::size_t c = 0; c < rows.cols; ++c) {
        const double difference = rows(a, c) - rows(b, c);
        squares += difference * difference;
      }
      least[a] = std::min(least[a], squares);
    }
  });
  return std::sqrt(std::ranges::min(least));
}

/// Returns the first `count` learned positions, [count, width]. Empty if the model has no learned positions.
OwnedMatrix<double> position_table(const model::Model& model, std::size_t count) {
  const model::EmbeddingConfig& embedding = model.config().embedding;
  if (embedding.position != model::PositionKind::learned) return {};
  const model::Lease<model::EmbeddingWeights> lease = model.embedding();
  const model::LookupTable& table = lease->position;
  OwnedMatrix<double> rows(count, table.width());
  std::vector<float> row(table.width());
  for (std::size_t p = 0; p < count; ++p) {
    table.row(p + embedding.position_offset, row);
    std::ranges::copy(row, rows.view().row(p).begin());
  }
  return rows;
}

const model::RotaryConfig* rotary_of(const model::Model& model) {
  for (const model::LayerConfig& layer : model.config().layers) {
    if (layer.attention.rotary) return layer.attention.rotary.get();
  }
  return nullptr;
}

void check(const PositionsOptions& options) {
  if (options.d == 0 || options.d % 2 != 0)
    fail(Status::usage,
         "--d: got {}, need an even number of at least 2, for a sine and a cosine of each frequency",
         options.d);
  if (options.heads == 0 || options.d % options.heads != 0)
    fail(Status::usage, "--heads: got {}, need a divisor of --d {}", options.heads, options.d);
  if (options.model == nullptr) return;
  const model::ModelConfig& config = options.model->config();
  if (config.max_positions && options.positions > *config.max_positions) {
    fail(Status::usage, "--positions: got {}, but the model {} has only {} positions", options.positions,
         escaped(options.model->name()), *config.max_positions);
  }
  if (config.embedding.position == model::PositionKind::none && rotary_of(*options.model) == nullptr) {
    fail(Status::bad_input,
         "{}: the experiment needs a model with rotary positions or with positions added to the embeddings; "
         "give another model",
         escaped(options.model->name()));
  }
}

/// Returns max |y(P x) - P y(x)| / max |y(x)| for the output y of a random layer, its input x and a random
/// permutation P. If `with_positions` is true, adds sinusoidal positions to x and to P x.
double permutation_error(const PositionsOptions& options, bool with_positions) {
  Random random(options.seed);
  const BareLayer layer = random_bare_layer(options.d, options.heads, random);
  const Matrix x = linalg::to_matrix(random_matrix(options.positions, options.d, 1, random).view());
  std::vector<std::size_t> order(options.positions);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.next() % (i + 1)]);

  const auto permuted = [&](const Matrix& rows) { return xt::view(rows, xt::keep(order)); };
  const auto run = [&](const Matrix& input) {
    return linalg::to_matrix(output_of(layer, {input.data(), input.shape(0), input.shape(1)}).view());
  };
  Matrix places = xt::zeros_like(x);
  if (with_positions)
    places = linalg::to_matrix(sinusoidal_positions(0, options.positions, options.d).view());
  const Matrix y = run(x + places);
  const Matrix y_permuted = run(permuted(x) + places);
  return xt::amax(xt::abs(y_permuted - permuted(y)))() / xt::amax(xt::abs(y))();
}

HeatmapPage page_of(const char* title, const char* x_axis, const char* scale, Tensor values) {
  HeatmapPage page{title, {.label = scale}, 0, {}};
  page.heatmaps.push_back({title, x_axis, "Position", {}, {}, std::move(values)});
  return page;
}

HeatmapPage similarity_page(const char* title, MatrixView<const double> rows) {
  const std::size_t count = std::min(rows.rows, kDrawnPositions);
  std::vector<double> cosines;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      const double norms = std::sqrt(dot(rows.row(a), rows.row(a)) * dot(rows.row(b), rows.row(b)));
      cosines.push_back(norms > 0 ? dot(rows.row(a), rows.row(b)) / norms : kUndefined);
    }
  }
  return page_of(title, "Position", "Cosine", make_tensor({count, count}, std::move(cosines)));
}

}  // namespace

OwnedMatrix<double> sinusoidal_positions(std::size_t first, std::size_t count, std::size_t d) {
  const std::vector<double> lengths = wavelengths(d);
  OwnedMatrix<double> rows(count, d);
  for (std::size_t p = 0; p < count; ++p) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const double turn = static_cast<double>(first + p) / lengths[i];
      rows(p, 2 * i) = std::sin(turn);
      rows(p, 2 * i + 1) = std::cos(turn);
    }
  }
  return rows;
}

void turn_positions(MatrixView<double> rows, std::size_t offset) {
  const std::vector<double> lengths = wavelengths(rows.cols);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double sine = std::sin(static_cast<double>(offset) / lengths[i]);
    const double cosine = std::cos(static_cast<double>(offset) / lengths[i]);
    for (std::size_t p = 0; p < rows.rows; ++p) {
      const double x = rows(p, 2 * i);
      const double y = rows(p, 2 * i + 1);
      rows(p, 2 * i) = x * cosine + y * sine;
      rows(p, 2 * i + 1) = y * cosine - x * sine;
    }
  }
}

ExperimentResult positions_experiment(const PositionsOptions& options, Pool& pool) {
  check(options);
  // [2 n, d] each, n = options.positions: rows p + distance are needed for p and distance up to n - 1.
  const OwnedMatrix<double> near = sinusoidal_positions(0, 2 * options.positions, options.d);
  const OwnedMatrix<double> far = sinusoidal_positions(options.far, 2 * options.positions, options.d);
  const MatrixView<const double> sinusoidal = near.view().row_range(0, options.positions);
  OwnedMatrix<double> table;  // [n, width]; empty if the model has no position table
  const model::RotaryConfig* rotary = nullptr;
  if (options.model != nullptr) {
    table = position_table(*options.model, options.positions);
    rotary = rotary_of(*options.model);
  }
  const MatrixView<const double> learned = std::as_const(table).view();
  ExperimentResult result{.name = "positions", .seed = options.seed, .x = "distance", .x_axis = "Distance"};
  result.parameters.set("positions", options.positions)
      .set("d", options.d)
      .set("far", options.far)
      .set("heads", options.heads)
      .set("model", options.model != nullptr ? Value(options.model->name()) : Value());
  CellRows rows(options.positions);
  pool.run(options.positions, [&](std::size_t distance, std::size_t /*worker*/) {
    const AtDistance dots = dots_at(sinusoidal, distance);
    std::vector<Cell>& row = rows[distance];
    row = {count_cell(distance), dots.mean, dots.farthest, rotation_residual(near, distance),
           rotation_residual(far, distance)};
    if (learned.rows > 0) {
      const AtDistance learned_dots = dots_at(learned, distance);
      row.insert(row.end(), {learned_dots.mean, learned_dots.deviation});
    }
    if (rotary == nullptr) return;
    double sum = 0;
    for (const float theta : rotary->inverse_frequency)
      sum += std::cos(static_cast<double>(distance) * static_cast<double>(theta));
    row.emplace_back(sum / static_cast<double>(rotary->inverse_frequency.size()));
  });
  std::vector<Column> columns(kPositionsColumns, kPositionsColumns + 5);
  result.add_chart("Sinusoidal positions", {"dot_product"}, "Dot product");
  if (learned.rows > 0) {
    columns.insert(columns.end(), {kPositionsColumns[5], kPositionsColumns[6]});
    result.add_chart("Learned positions", {"learned_dot_product"}, "Mean dot product");
  }
  if (rotary != nullptr) {
    columns.emplace_back(kPositionsColumns[7]);
    result.add_chart("Rotary positions", {"rotary_kernel"}, "Mean cosine");
  }
  result.rows = make_table("rows", columns, std::move(rows));

  const auto shown = sinusoidal.row_range(0, std::min(sinusoidal.rows, kDrawnPositions))
                         .col_range(0, std::min(sinusoidal.cols, kDrawnColumns));
  result.heatmaps.push_back(
      {"matrix", page_of("Sinusoidal Positions", "Dimension", "Value", array_of(shown))});
  result.heatmaps.push_back(
      {"similarity", similarity_page("Similarity of Sinusoidal Positions", sinusoidal)});
  result.summary.set("smallest_distance", smallest_distance(sinusoidal, pool));
  if (learned.rows > 0) {
    result.heatmaps.push_back({"learned", similarity_page("Similarity of Learned Positions", learned)});
    result.summary.set("learned_smallest_distance", smallest_distance(learned, pool));
  }
  const double error = permutation_error(options, false);
  const double with_positions = permutation_error(options, true);
  result.summary.set("permutation_error", error).set("permutation_error_with_positions", with_positions);
  result.conclusion = fmt::format(
      "The permutation error is {:.1g} without positions and {:.2g} with positions.", error, with_positions);
  return result;
}

}  // namespace attnctl::textbook

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <map>
#include <numeric>

#include "analysis/similarity/subspace_similarity.hpp"
#include "analysis/weights/weights.hpp"
#include "base/error.hpp"
#include "linalg/decompositions.hpp"
#include "textbook/experiments.hpp"
#include "textbook/parts.hpp"

namespace attnctl::textbook {
constexpr Definition kDiversityColumns[] = {
    {"effective_rank", "", "[1, d_head]", "", "mean effective rank of QK or OV", "Roy and Vetterli 2007"},
    {"similarity", "", "[-1, 1]", "0", "mean Frobenius cosine with the matrices of other heads"},
    {"absolute_similarity", "", "[0, 1]", "about 0.8 / d",
     "mean magnitude of the Frobenius cosines with the matrices of other heads"},
    {"deviation", "", "[0, inf)", "", "standard deviation over draws of the mean over heads"},
};

namespace {

/// The measures of a head, or the means over heads, in the order of kDiversityColumns.
using HeadMeasures = std::array<std::optional<double>, 3>;

/// A mean and a sample standard deviation (divisor n - 1). The deviation needs at least two values.
struct Spread {
  std::optional<double> mean;
  std::optional<double> deviation;
};

Spread spread_of(std::span<const double> values) {
  if (values.empty()) return {};
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() == 1) return {mean, {}};
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (count - 1))};
}

std::array<Spread, 3> spreads_of(std::span<const HeadMeasures> all) {
  std::array<Spread, 3> spreads;
  for (std::size_t i = 0; i < spreads.size(); ++i) {
    std::vector<double> values;
    for (const HeadMeasures& each : all) {
      if (each[i]) values.push_back(*each[i]);
    }
    spreads[i] = spread_of(values);
  }
  return spreads;
}

struct HeadDiversity {
  std::vector<double> effective_ranks;
  OwnedMatrix<double> similarity;

  [[nodiscard]] HeadMeasures means() const {
    const analysis::OffDiagonal pairs = analysis::off_diagonal(similarity.view());
    return {spread_of(effective_ranks).mean, pairs.mean, pairs.mean_abs};
  }
  /// Returns the measures of a head. The similarities are means over the other heads; undefined if there are
  /// no other heads.
  [[nodiscard]] HeadMeasures of_head(std::size_t head) const {
    const std::size_t heads = similarity.rows();
    if (heads < 2) return {effective_ranks[head], {}, {}};
    double sum = 0;
    double magnitudes = 0;
    for (std::size_t other = 0; other < heads; ++other) {
      if (other == head) continue;
      sum += similarity(head, other);
      magnitudes += std::abs(similarity(head, other));
    }
    const auto others = static_cast<double>(heads - 1);
    return {effective_ranks[head], sum / others, magnitudes / others};
  }
};

/// The shape of the left (such as W_Q) or right (W_K) matrices of a circuit, for all heads of a layer. Each
/// matrix is [dimension, width]. Heads may share a matrix, for example in grouped-query attention.
struct CircuitSide {
  std::size_t heads = 0, width = 0, dimension = 0;
  std::vector<std::size_t> slices;  // [heads], index of the matrix of each head

  auto operator<=>(const CircuitSide&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs
};
using CircuitShape = std::array<CircuitSide, 2>;  // left, right

CircuitSide side_of(const analysis::CircuitFactor& factor, std::size_t heads) {
  CircuitSide side{heads, factor.width(), factor.dimension(), {}};
  for (std::size_t head = 0; head < heads; ++head) side.slices.push_back(factor.slice_of(head));
  return side;
}

/// Random matrices of one side of a circuit, with one random stream per matrix. The entries are independent
/// and normal with standard deviation sqrt(2 / (dimension + width)). They do not depend on the number of
/// threads.
class DrawnSide {
 public:
  DrawnSide(const CircuitSide& shape, std::uint64_t seed, std::uint64_t first_stream, Pool& pool)
      : shape_(shape), drawn_((std::ranges::max(shape.slices) + 1) * shape.width, shape.dimension) {
    const std::size_t size = shape.width * shape.dimension;
    const double deviation = std::sqrt(2 / static_cast<double>(shape.dimension + shape.width));
    pool.run(drawn_.rows() / shape.width, [&](std::size_t slice, std::size_t /*worker*/) {
      Random random(seed, first_stream + slice);
      for (float& value : drawn_.values().subspan(slice * size, size))
        value = static_cast<float>(deviation * random.normal());
    });
  }

  /// Multiplies rows i d/h to (i+1) d/h - 1 of the matrix of head i by the gain, where d is the number of
  /// rows and h the number of heads. Heads must not share matrices.
  void specialise(double gain) {
    const std::size_t d = shape_.dimension;
    for (std::size_t row = 0; row < drawn_.rows(); ++row) {
      const std::size_t head = row / shape_.width;
      for (std::size_t r = head * d / shape_.heads; r < (head + 1) * d / shape_.heads; ++r)
        drawn_(row, r) *= static_cast<float>(gain);
    }
  }

  [[nodiscard]] analysis::CircuitFactor factor() const {
    const model::Linear linear{
        .stored = drawn_.view(), .orientation = model::Orientation::out_in, .bias = {}};
    return analysis::CircuitFactor::of_outputs(linear, shape_.width, shape_.slices);
  }

  /// Returns the matrices, [matrices, dimension, width].
  [[nodiscard]] Tensor by_rows() const {
    std::vector<float> values;
    for (std::size_t first = 0; first < drawn_.rows(); first += shape_.width) {
      for (std::size_t r = 0; r < drawn_.cols(); ++r) {
        for (std::size_t c = 0; c < shape_.width; ++c) values.push_back(drawn_(first + c, r));
      }
    }
    return make_tensor({drawn_.rows() / shape_.width, drawn_.cols(), shape_.width}, std::move(values));
  }

 private:
  CircuitSide shape_;
  OwnedMatrix<float> drawn_;  // [matrices * width, dimension], transposed
};
using DrawnHeads = std::array<DrawnSide, 2>;  // left, right

DrawnHeads draw_heads(const CircuitShape& shape, std::uint64_t seed, std::uint64_t draw, Pool& pool) {
  return {DrawnSide(shape[0], seed, (2 * draw) << 24, pool),
          DrawnSide(shape[1], seed, (2 * draw + 1) << 24, pool)};
}

DrawnHeads draw_heads(const DiversityOptions& options, bool specialised, std::size_t number, Pool& pool) {
  CircuitSide side{options.heads, options.d_head, options.d, std::vector<std::size_t>(options.heads)};
  std::iota(side.slices.begin(), side.slices.end(), std::size_t{0});
  DrawnHeads drawn = draw_heads({side, side}, options.seed, 2 * number + (specialised ? 1 : 0), pool);
  if (specialised) {
    for (DrawnSide& each : drawn) each.specialise(options.gain);
  }
  return drawn;
}

HeadDiversity measure(const DrawnHeads& drawn, std::size_t heads, Pool& pool) {
  const analysis::CircuitFactors factors = {drawn[0].factor(), drawn[1].factor()};
  HeadDiversity result;
  result.effective_ranks.resize(heads);
  std::vector<std::vector<analysis::ComparedHead>> sets(1, std::vector<analysis::ComparedHead>(heads));
  pool.run(heads, [&](std::size_t head, std::size_t /*worker*/) {
    OwnedMatrix<double> left = factors.left.columns(head);
    OwnedMatrix<double> right = factors.right.columns(head);
    const double mass = analysis::circuit_mass(left.view(), right.view());
    const std::vector<double> values = linalg::svd_of_product(left.view(), right.view(), 0).values;
    const double norm = std::sqrt(dot(values, values));
    result.effective_ranks[head] = linalg::effective_rank(values).value();
    sets[0][head] = {&factors, head, norm, mass / norm};
  });
  result.similarity = std::move(analysis::frobenius_cosines(sets, pool).front());
  return result;
}

/// If `labels` is empty, rows and columns are labelled with the indices of the heads.
Heatmap heatmap_of(OwnedMatrix<double> similarity, std::string title,
                   const std::vector<std::string>& labels = {}) {
  for (std::size_t i = 0; i < similarity.rows(); ++i) similarity(i, i) = kUndefined;
  return {std::move(title), "Head", "Head", labels, labels, array_of(similarity.view())};
}

HeatmapPage page_of(std::vector<Heatmap> heatmaps, std::size_t columns) {
  HeatmapPage page{"Subspace Similarity", {.label = "Cosine"}, columns, std::move(heatmaps)};
  page.fit_scale();
  return page;
}

/// The results of random heads of one shape. `spreads` summarises the means over the heads of each draw.
struct RandomHeads {
  std::array<Spread, 3> spreads;
  OwnedMatrix<double> similarity;  // first draw only
};

RandomHeads random_heads(const CircuitShape& shape, std::uint64_t number, const DiversityOptions& options,
                         Pool& pool) {
  RandomHeads heads;
  std::vector<HeadMeasures> draws;
  for (std::size_t draw = 0; draw < options.draws; ++draw) {
    const DrawnHeads drawn = draw_heads(shape, options.seed, number * options.draws + draw, pool);
    HeadDiversity measured = measure(drawn, shape[0].heads, pool);
    draws.push_back(measured.means());
    if (draw == 0) heads.similarity = std::move(measured.similarity);
  }
  heads.spreads = spreads_of(draws);
  return heads;
}

}  // namespace

ExperimentResult diversity_experiment(const DiversityOptions& options, Pool& pool) {
  const std::array<std::string, 2> kinds{"random", "specialised"};
  std::array<std::vector<HeadDiversity>, 2> draws;
  for (std::size_t number = 0; number < options.draws; ++number) {
    for (const bool specialised : {false, true}) {
      const DrawnHeads drawn = draw_heads(options, specialised, number, pool);
      draws[specialised ? 1 : 0].push_back(measure(drawn, options.heads, pool));
    }
  }
  ExperimentResult result{.name = "diversity", .seed = options.seed, .x = "head", .x_axis = "Head"};
  result.parameters.set("d", options.d)
      .set("heads", options.heads)
      .set("d_head", options.d_head)
      .set("gain", options.gain)
      .set("draws", options.draws);

  std::vector<Column> columns = columns_of(kDiversityColumns, {"head"});
  std::vector<std::string> labels;
  CellRows rows;
  for (std::size_t head = 0; head < options.heads; ++head) {
    labels.push_back("Head " + std::to_string(head));
    rows.push_back({count_cell(head)});
  }
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const auto spreads = [&](const auto& measures_of) {
      std::vector<HeadMeasures> all;
      for (const HeadDiversity& draw : draws[kind]) all.push_back(measures_of(draw));
      return spreads_of(all);
    };
    for (std::size_t head = 0; head < options.heads; ++head) {
      for (const Spread& each : spreads([&](const HeadDiversity& draw) { return draw.of_head(head); }))
        rows[head].push_back(cell_of(each.mean));
    }
    const std::array<Spread, 3> means = spreads([](const HeadDiversity& draw) { return draw.means(); });
    result.conclusion +=
        fmt::format("{} effective rank of {} heads is {:.4g}{}", kind == 0 ? "The mean" : " and the mean",
                    kinds[kind], means[0].mean.value(), kind == 0 ? "," : ".");
    for (std::size_t i = 0; i < means.size(); ++i) {
      const Definition& about = kDiversityColumns[i];
      columns.emplace_back(fmt::format("{}_{}", kinds[kind], about.name), about);
      const std::string name = fmt::format("{}{}{}", kinds[kind], i == 0 ? "_" : "_mean_", about.name);
      result.summary.set(name, cell_of(means[i].mean)).set(name + "_deviation", cell_of(means[i].deviation));
    }
  }
  result.rows = make_table("rows", std::move(columns), std::move(rows));
  result.add_chart("Effective rank", {"random_effective_rank", "specialised_effective_rank"},
                   "Effective rank");
  result.add_chart("Mean magnitude of similarity to other heads",
                   {"random_absolute_similarity", "specialised_absolute_similarity"}, "Similarity",
                   Drawing::bars);
  std::vector<Heatmap> maps;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    maps.push_back(heatmap_of(draws[kind].front().similarity, kinds[kind], labels));
  result.heatmaps = {{"similarity", page_of(std::move(maps), 2)}};
  return result;
}

std::vector<Tensor> diversity_weights(const DiversityOptions& options, bool specialised, Pool& pool) {
  const DrawnHeads drawn = draw_heads(options, specialised, 0, pool);
  return {{"W_q", drawn[0].by_rows()}, {"W_k", drawn[1].by_rows()}};
}

ExperimentResult model_diversity_experiment(const model::Model& model, analysis::Circuit circuit,
                                            const DiversityOptions& options, Pool& pool, Warnings& warnings) {
  const analysis::WeightsAnalysis weights =
      analysis::analyze_weights(model, forward::Selection::all(model.config()), {}, pool, warnings);
  if (circuit == analysis::Circuit::ov && !weights.ov)
    fail(Status::bad_input, "--circuit ov: a layer has no W_V or no W_O; use --circuit qk");
  const analysis::CircuitAnalysis& analysis = circuit == analysis::Circuit::qk ? weights.qk : *weights.ov;

  std::map<CircuitShape, RandomHeads> random;
  CellRows rows;
  std::vector<HeadMeasures> trained, drawn;  // [layers], means of the model's heads and of the random heads
  int similar = 0;                           // layers whose heads are more similar than random heads
  std::vector<Heatmap> maps;
  for (const analysis::HeadMatrix& similarity : analysis.similarity) {
    const std::size_t index = similarity.layer.value();
    const analysis::CircuitFactors factors = analysis::circuit_factors(model, index, circuit, false).value();
    const CircuitShape shape = {side_of(factors.left, similarity.heads.size()),
                                side_of(factors.right, similarity.heads.size())};
    auto known = random.find(shape);
    if (known == random.end())
      known = random.emplace(shape, random_heads(shape, random.size(), options, pool)).first;
    std::vector<double> ranks;
    for (const analysis::HeadSpectrum& head : analysis.heads) {
      if (head.head.layer == index && head.effective_rank) ranks.push_back(*head.effective_rank);
    }
    const analysis::OffDiagonal pairs = analysis::off_diagonal(similarity.values.view());
    trained.push_back({spread_of(ranks).mean, pairs.mean, pairs.mean_abs});
    drawn.emplace_back();
    std::vector<Cell>& row = rows.emplace_back(1, count_cell(index));
    for (std::size_t i = 0; i < drawn.back().size(); ++i) {
      const Spread& spread = known->second.spreads[i];
      drawn.back()[i] = spread.mean;
      row.insert(row.end(), {cell_of(trained.back()[i]), cell_of(spread.mean), cell_of(spread.deviation)});
    }
    if (trained.back()[2] > drawn.back()[2]) ++similar;
    maps.push_back(heatmap_of(similarity.values, fmt::format("Layer {}", index)));
  }
  for (const auto& [shape, heads] : random) {
    const std::string sizes = fmt::format(", {} of {}", counted(shape[0].heads, "head"), shape[0].width);
    maps.push_back(heatmap_of(heads.similarity, "Random" + (random.size() > 1 ? sizes : "")));
  }

  ExperimentResult result{.name = "diversity", .seed = options.seed, .x = "layer", .x_axis = "Layer"};
  result.parameters.set("model", model.name())
      .set("circuit", std::string(name_of(circuit)))
      .set("draws", options.draws);
  std::vector<Column> columns = columns_of(kDiversityColumns, {"layer"});
  for (std::size_t i = 0; i < HeadMeasures().size(); ++i) {
    const Definition& about = kDiversityColumns[i];
    const std::string name(about.name);
    const Column deviation("random_" + name + "_deviation", kDiversityColumns[3]);
    columns.insert(columns.end(), {about, {"random_" + name, about}, deviation});
    // The summary has the means over the layers.
    result.summary.set(name, cell_of(spreads_of(trained)[i].mean))
        .set("random_" + name, cell_of(spreads_of(drawn)[i].mean));
  }
  result.conclusion = fmt::format("In {} of {}, absolute_similarity is above that of random heads.", similar,
                                  counted(trained.size(), "layer"));
  result.rows = make_table("rows", columns, std::move(rows));
  result.add_chart("Effective rank", {"effective_rank", "random_effective_rank"}, "Effective rank");
  result.add_chart("Mean magnitude of similarity", {"absolute_similarity", "random_absolute_similarity"},
                   "Mean magnitude of similarity");
  const std::size_t maps_per_row = std::min<std::size_t>(4, maps.size());
  result.heatmaps = {{"similarity", page_of(std::move(maps), maps_per_row)}};
  return result;
}

}  // namespace attnctl::textbook

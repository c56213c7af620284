#include "textbook/drawn_heads.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "analysis/weights/ranks.hpp"
#include "base/random.hpp"
#include "linalg/decompositions.hpp"

namespace attnctl {
namespace {

std::size_t count_of(std::span<const std::size_t> slices) {
  return *std::ranges::max_element(slices) + 1;
}

/// Draws random slices, with one random stream per slice.
OwnedMatrix<float> draw_slices(std::size_t slices, std::size_t width, std::size_t dimension,
                               std::uint64_t seed, std::uint64_t first_stream, Pool& pool) {
  const double deviation = std::sqrt(2 / static_cast<double>(dimension + width));
  OwnedMatrix<float> drawn(slices * width, dimension);
  const MatrixView<float> view = drawn.view();
  pool.run(slices, [&](std::size_t slice, std::size_t /*worker*/) {
    Random random(seed, first_stream + slice);
    for (float& value : std::span(view.row(slice * width).data(), width * dimension))
      value = static_cast<float>(deviation * random.normal());
  });
  return drawn;
}

Linear linear_of(const OwnedMatrix<float>& stored) {
  return {.stored = stored.view(), .orientation = Orientation::out_in, .bias = {}};
}

std::vector<float> by_rows(const OwnedMatrix<float>& stored, std::size_t slices, std::size_t width) {
  std::vector<float> values;
  values.reserve(stored.values().size());
  for (std::size_t slice = 0; slice < slices; ++slice) {
    for (std::size_t r = 0; r < stored.cols(); ++r) {
      for (std::size_t c = 0; c < width; ++c) values.push_back(stored(slice * width + c, r));
    }
  }
  return values;
}

double norm_of(std::span<const double> singular_values) {
  return std::sqrt(
      std::inner_product(singular_values.begin(), singular_values.end(), singular_values.begin(), 0.0));
}

}  // namespace

CircuitShape shape_of(const CircuitFactors& factors, std::size_t heads) {
  CircuitShape shape{.heads = heads,
                     .width = factors.left.width(),
                     .left_dimension = factors.left.dimension(),
                     .right_dimension = factors.right.dimension(),
                     .left_slices = {},
                     .right_slices = {}};
  for (std::size_t head = 0; head < heads; ++head) {
    shape.left_slices.push_back(factors.left.slice_of(head));
    shape.right_slices.push_back(factors.right.slice_of(head));
  }
  return shape;
}

DrawnHeads::DrawnHeads(const CircuitShape& shape, std::uint64_t seed, std::uint64_t draw, Pool& pool)
    : shape_(shape),
      left_(draw_slices(count_of(shape.left_slices), shape.width, shape.left_dimension, seed,
                        (2 * draw) << 24, pool)),
      right_(draw_slices(count_of(shape.right_slices), shape.width, shape.right_dimension, seed,
                         (2 * draw + 1) << 24, pool)) {}

void DrawnHeads::specialise(double gain) {
  for (OwnedMatrix<float>* side : {&left_, &right_}) {
    const std::size_t d = side->cols();
    for (std::size_t row = 0; row < side->rows(); ++row) {
      const std::size_t head = row / shape_.width;
      for (std::size_t r = head * d / shape_.heads; r < (head + 1) * d / shape_.heads; ++r)
        (*side)(row, r) *= static_cast<float>(gain);
    }
  }
}

CircuitFactors DrawnHeads::factors() const {
  return {CircuitFactor::of_outputs(linear_of(left_), shape_.width, shape_.left_slices),
          CircuitFactor::of_outputs(linear_of(right_), shape_.width, shape_.right_slices)};
}

std::vector<float> DrawnHeads::left() const {
  return by_rows(left_, count_of(shape_.left_slices), shape_.width);
}

std::vector<float> DrawnHeads::right() const {
  return by_rows(right_, count_of(shape_.right_slices), shape_.width);
}

HeadDiversity measure(const DrawnHeads& drawn, std::size_t heads, Pool& pool) {
  const CircuitFactors factors = drawn.factors();
  HeadDiversity result;
  result.effective_ranks.resize(heads);
  std::vector<std::vector<ComparedHead>> sets(1, std::vector<ComparedHead>(heads));
  pool.run(heads, [&](std::size_t head, std::size_t /*worker*/) {
    OwnedMatrix<double> left(factors.left.width(), factors.left.dimension());
    OwnedMatrix<double> right(factors.right.width(), factors.right.dimension());
    factors.left.read_columns(head, left.view());
    factors.right.read_columns(head, right.view());
    const double mass = circuit_mass(left.view(), right.view());
    const std::vector<double> values = svd_of_product(left.view(), right.view(), 0).values;
    result.effective_ranks[head] = effective_rank(values).value();
    sets[0][head] = {&factors, head, norm_of(values), mass / norm_of(values)};
  });
  result.similarity = std::move(frobenius_cosines(sets, pool).front());
  result.off_diagonal = off_diagonal(std::as_const(result.similarity).view());
  result.mean_rank = spread_of(result.effective_ranks).mean.value();
  return result;
}

Spread spread_of(std::span<const double> values) {
  if (values.empty()) return {};
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() == 1) return {.mean = mean, .deviation = {}};
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {.mean = mean, .deviation = std::sqrt(squares / (count - 1))};
}

}  // namespace attnctl

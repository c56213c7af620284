#include "attnctl/analysis/subspace_similarity.hpp"

#include "attnctl/analysis/ranks.hpp"
#include "attnctl/linalg/factor.hpp"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/long_way.hpp"

namespace attnctl {
namespace {

using long_way::Dense;

/// Weights in float32 as a checkpoint has them, in either orientation.
struct StoredWeight {
  std::vector<float> values;
  Linear linear;

  StoredWeight(const Dense& in_out, Orientation orientation) {
    const bool straight = orientation == Orientation::in_out;
    const std::size_t rows = straight ? in_out.rows() : in_out.cols();
    const std::size_t cols = straight ? in_out.cols() : in_out.rows();
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < cols; ++c) {
        values.push_back(static_cast<float>(straight ? in_out(r, c) : in_out(c, r)));
      }
    }
    linear.stored = {values.data(), rows, cols};
    linear.orientation = orientation;
  }
};

Dense read(const CircuitFactor& factor, std::size_t head) {
  Dense slice(factor.dimension(), factor.width());
  factor.read(head, slice.view());
  return slice;
}

struct HeadShape {
  std::size_t heads, kv_heads, d, kdim, k;
};

/// Compares every pair with the circuits formed and flattened.
void check_cosines(const HeadShape& shape, Orientation orientation, bool ov) {
  long_way::Normal normal(shape.heads * 100 + shape.d);
  const StoredWeight left(normal.matrix(shape.d, (ov ? shape.kv_heads : shape.heads) * shape.k), orientation);
  const StoredWeight right(ov ? normal.matrix(shape.heads * shape.k, shape.kdim)
                              : normal.matrix(shape.kdim, shape.kv_heads * shape.k),
                           orientation);
  const std::size_t shared = shape.heads / shape.kv_heads;
  const CircuitFactors factors{CircuitFactor::of_outputs(left.linear, shape.k, ov ? shared : 1),
                               ov ? CircuitFactor::of_inputs(right.linear, shape.k)
                                  : CircuitFactor::of_outputs(right.linear, shape.k, shared)};
  std::vector<ComparedHead> heads;
  std::vector<Dense> formed;
  for (std::size_t h = 0; h < shape.heads; ++h) {
    formed.push_back(long_way::product_nt(read(factors.left, h), read(factors.right, h)));
    double square = 0;
    for (const double value : formed.back().values()) square += value * value;
    heads.push_back({&factors, h, std::sqrt(square)});
    const Dense product = form_circuit(factors, h);
    for (std::size_t i = 0; i < product.values().size(); ++i) {
      CHECK(std::abs(product.values()[i] - formed.back().values()[i]) < 1e-12 * std::sqrt(square));
    }
  }
  Pool pool(3);
  const Dense cosines = frobenius_cosines(heads, pool);
  for (std::size_t i = 0; i < shape.heads; ++i) {
    for (std::size_t j = 0; j < shape.heads; ++j) {
      CHECK(std::abs(cosines(i, j) - long_way::cosine(formed[i], formed[j])) < 1e-12);
    }
  }
}

TEST_CASE("cosines equal those of the circuits formed") {
  for (const HeadShape& shape :
       {HeadShape{3, 3, 15, 15, 5}, HeadShape{6, 2, 24, 24, 10}, HeadShape{4, 1, 10, 7, 3},
        HeadShape{13, 13, 9, 11, 2}, HeadShape{1, 1, 4, 4, 4}, HeadShape{8, 4, 6, 5, 9}}) {
    for (const Orientation orientation : {Orientation::in_out, Orientation::out_in}) {
      for (const bool ov : {false, true}) {
        CAPTURE(shape.heads);
        CAPTURE(shape.d);
        CAPTURE(ov);
        check_cosines(shape, orientation, ov);
      }
    }
  }
}

TEST_CASE("a head without a norm has no similarity, the others keep theirs") {
  long_way::Normal normal(3);
  const StoredWeight q(normal.matrix(8, 6), Orientation::in_out);
  const StoredWeight k(normal.matrix(8, 6), Orientation::in_out);
  const CircuitFactors factors{CircuitFactor::of_outputs(q.linear, 2, 1),
                               CircuitFactor::of_outputs(k.linear, 2, 1)};
  const auto norm = [&](std::size_t h) {
    const auto s =
        long_way::singular_values(long_way::product_nt(read(factors.left, h), read(factors.right, h)));
    return std::sqrt(s[0] * s[0] + s[1] * s[1]);
  };
  const std::vector<ComparedHead> heads{{&factors, 0, norm(0)}, {&factors, 1, 0}, {&factors, 2, norm(2)}};
  Pool pool(1);
  const Dense cosines = frobenius_cosines(heads, pool);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(std::isnan(cosines(1, i)));
    CHECK(std::isnan(cosines(i, 1)));
  }
  CHECK(cosines(0, 0) == 1);
  CHECK(std::abs(cosines(0, 2)) < 1);
  const OffDiagonal means = off_diagonal(cosines.view());
  CHECK(means.mean.value() == doctest::Approx(cosines(0, 2)));
  CHECK(means.mean_abs.value() == doctest::Approx(std::abs(cosines(0, 2))));
}

TEST_CASE("means over pairs leave the diagonal out") {
  Dense similarity(3, 3);
  const std::vector<double> values{1, 0.5, -0.25, 0.5, 1, -0.1, -0.25, -0.1, 1};
  std::copy(values.begin(), values.end(), similarity.values().begin());
  const OffDiagonal means = off_diagonal(std::as_const(similarity).view());
  CHECK(means.mean.value() == doctest::Approx(0.05));
  CHECK(means.mean_abs.value() == doctest::Approx(0.85 / 3));
  CHECK_FALSE(off_diagonal(Dense(1, 1).view()).mean.has_value());
}

TEST_CASE("a folded gain multiplies the rows of the factor") {
  long_way::Normal normal(4);
  const Dense w = normal.matrix(4, 6);
  const std::vector<float> gain{1, -2, 0, 0.5F};
  for (const Orientation orientation : {Orientation::in_out, Orientation::out_in}) {
    const StoredWeight stored(w, orientation);
    CircuitFactor factor = CircuitFactor::of_outputs(stored.linear, 3, 1);
    const Dense before = read(factor, 1);
    factor.fold(gain, 1);
    const Dense after = read(factor, 1);
    for (std::size_t r = 0; r < 4; ++r) {
      for (std::size_t c = 0; c < 3; ++c) {
        CHECK(after(r, c) == before(r, c) * (static_cast<double>(gain[r]) + 1));
      }
    }
  }
}

/// d 512, 8 heads of 64. The specialised set has rows i d/h .. (i+1) d/h of head i times 3 in W_Q and W_K.
constexpr std::size_t text_d = 512;
constexpr std::size_t text_h = 8;
constexpr std::size_t text_k = text_d / text_h;

Dense draw_projections(long_way::Normal& normal, bool specialised) {
  Dense w = normal.matrix(text_d, text_d, std::sqrt(2.0 / (text_d + text_k)));
  for (std::size_t r = 0; specialised && r < text_d; ++r) {
    const std::size_t head = r / text_k;
    for (double& value : w.view().row(r).subspan(head * text_k, text_k)) value *= 3;
  }
  return w;
}

struct DrawResult {
  double mean_rank = 0;
  double mean = 0;
  double mean_abs = 0;
};

DrawResult measure_draw(long_way::Normal& normal, bool specialised) {
  const StoredWeight q(draw_projections(normal, specialised), Orientation::in_out);
  const StoredWeight k(draw_projections(normal, specialised), Orientation::in_out);
  const CircuitFactors factors{CircuitFactor::of_outputs(q.linear, text_k, 1),
                               CircuitFactor::of_outputs(k.linear, text_k, 1)};
  DrawResult result;
  std::vector<ComparedHead> heads;
  for (std::size_t i = 0; i < text_h; ++i) {
    const auto s = svd_of_product(read(factors.left, i).view(), read(factors.right, i).view(), false).values;
    double square = 0;
    for (const double value : s) square += value * value;
    heads.push_back({&factors, i, std::sqrt(square)});
    result.mean_rank += effective_rank(s).value() / text_h;
  }
  Pool pool(2);
  const OffDiagonal means = off_diagonal(frobenius_cosines(heads, pool).view());
  result.mean = means.mean.value();
  result.mean_abs = means.mean_abs.value();
  return result;
}

TEST_CASE("random heads and heads specialised by rows, as the texts draw them") {
  struct Row {
    bool specialised;
    double rank, rank_within, mean_abs;
  };
  // The mean |similarity| of one draw's 28 pairs itself spreads by 0.0002, so several are averaged.
  constexpr int draws = 6;
  long_way::Normal normal(2024);
  for (const Row& row : {Row{false, 61.9, 0.1, 0.0016}, Row{true, 58.7, 0.2, 0.0012}}) {
    CAPTURE(row.specialised);
    double rank = 0;
    double mean_abs = 0;
    for (int draw = 0; draw < draws; ++draw) {
      const DrawResult result = measure_draw(normal, row.specialised);
      CHECK(std::abs(result.mean) < 0.0015);
      rank += result.mean_rank / draws;
      mean_abs += result.mean_abs / draws;
    }
    CHECK(std::abs(rank - row.rank) < row.rank_within);
    CHECK(std::abs(mean_abs - row.mean_abs) < 0.0002);
  }
}

}  // namespace
}  // namespace attnctl

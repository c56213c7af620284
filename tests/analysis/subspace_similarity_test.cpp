#include "analysis/similarity/subspace_similarity.hpp"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "linalg/decompositions.hpp"
#include "support/long_way.hpp"

namespace attnctl::analysis {
namespace {

using long_way::Dense;

/// Float32 weights of a checkpoint, in either orientation.
struct StoredWeight {
  std::vector<float> values;
  model::Linear linear;

  StoredWeight(const Dense& in_out, model::Orientation orientation) {
    const bool straight = orientation == model::Orientation::in_out;
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
  const Dense columns = factor.columns(head);
  Dense slice(factor.dimension(), factor.width());
  for (std::size_t r = 0; r < slice.rows(); ++r) {
    for (std::size_t c = 0; c < slice.cols(); ++c) slice(r, c) = columns(c, r);
  }
  return slice;
}

double norm_of(const Dense& matrix) {
  double square = 0;
  for (const double value : matrix.values()) square += value * value;
  return std::sqrt(square);
}

struct Formed {
  std::vector<ComparedHead> heads;  // compared in double
  std::vector<Dense> circuits;
};

Formed form(const CircuitFactors& factors, std::size_t heads) {
  Formed formed;
  for (std::size_t h = 0; h < heads; ++h) {
    formed.circuits.push_back(long_way::product_nt(read(factors.left, h), read(factors.right, h)));
    formed.heads.push_back({.factors = &factors, .head = h, .norm = norm_of(formed.circuits.back())});
  }
  return formed;
}

/// Sets the cancellation of the heads as the weight analysis does, so that float32 is used where it is
/// accurate.
std::vector<ComparedHead> with_cancellation(std::vector<ComparedHead> heads) {
  for (ComparedHead& head : heads) {
    head.cancellation = circuit_mass(head.factors->left.columns(head.head).view(),
                                     head.factors->right.columns(head.head).view()) /
                        head.norm;
  }
  return heads;
}

Dense cosines_of(const std::vector<ComparedHead>& heads, std::size_t threads = 3) {
  Pool pool(threads);
  const std::vector<std::vector<ComparedHead>> sets{heads};
  return frobenius_cosines(sets, pool).at(0);
}

/// Returns the largest difference from the cosines of the flattened circuits.
double largest_error(const Dense& cosines, const std::vector<Dense>& circuits) {
  double largest = 0;
  for (std::size_t i = 0; i < circuits.size(); ++i) {
    for (std::size_t j = 0; j < circuits.size(); ++j) {
      largest = std::max(largest, std::abs(cosines(i, j) - long_way::cosine(circuits[i], circuits[j])));
    }
  }
  return largest;
}

struct HeadShape {
  std::size_t heads, kv_heads, d, kdim, k;
};

/// Compares every pair with the cosine of the flattened circuits.
void check_cosines(const HeadShape& shape, model::Orientation orientation, bool ov) {
  long_way::Normal normal(shape.heads * 100 + shape.d);
  const StoredWeight left(normal.matrix(shape.d, (ov ? shape.kv_heads : shape.heads) * shape.k), orientation);
  const StoredWeight right(ov ? normal.matrix(shape.heads * shape.k, shape.kdim)
                              : normal.matrix(shape.kdim, shape.kv_heads * shape.k),
                           orientation);
  std::vector<std::size_t> shared;
  for (std::size_t h = 0; h < shape.heads; ++h) shared.push_back(h / (shape.heads / shape.kv_heads));
  const std::vector<std::size_t> own;
  const CircuitFactors factors{CircuitFactor::of_outputs(left.linear, shape.k, ov ? shared : own),
                               ov ? CircuitFactor::of_inputs(right.linear, shape.k)
                                  : CircuitFactor::of_outputs(right.linear, shape.k, shared)};
  const Formed formed = form(factors, shape.heads);
  for (std::size_t h = 0; h < shape.heads; ++h) {
    const Dense product = form_circuit(factors, h);
    for (std::size_t i = 0; i < product.values().size(); ++i) {
      CHECK(std::abs(product.values()[i] - formed.circuits[h].values()[i]) < 1e-12 * formed.heads[h].norm);
    }
  }
  CHECK(largest_error(cosines_of(formed.heads), formed.circuits) < 1e-12);
  CHECK(largest_error(cosines_of(with_cancellation(formed.heads)), formed.circuits) < 1e-7);
}

TEST_CASE("cosines equal those of the circuits formed") {
  for (const HeadShape& shape :
       {HeadShape{3, 3, 15, 15, 5}, HeadShape{6, 2, 24, 24, 10}, HeadShape{4, 1, 10, 7, 3},
        HeadShape{13, 13, 9, 11, 2}, HeadShape{1, 1, 4, 4, 4}, HeadShape{8, 4, 6, 5, 9},
        HeadShape{5, 5, 70, 50, 32}, HeadShape{6, 2, 60, 60, 40}, HeadShape{4, 1, 48, 64, 33}}) {
    for (const model::Orientation orientation : {model::Orientation::in_out, model::Orientation::out_in}) {
      for (const bool ov : {false, true}) {
        CAPTURE(shape.heads);
        CAPTURE(shape.d);
        CAPTURE(ov);
        check_cosines(shape, orientation, ov);
      }
    }
  }
}

/// Four heads of width 40 with one matrix [60, 160] per side.
struct WideHeads {
  StoredWeight left, right;
  CircuitFactors factors;

  WideHeads(const Dense& left_values, const Dense& right_values,
            model::Orientation orientation = model::Orientation::in_out)
      : left(left_values, orientation),
        right(right_values, orientation),
        factors{CircuitFactor::of_outputs(left.linear, 40, {}),
                CircuitFactor::of_outputs(right.linear, 40, {})} {}
};

TEST_CASE("products use float32 if the weights allow it") {
  long_way::Normal normal(31);
  const WideHeads wide(normal.matrix(60, 160), normal.matrix(60, 160));
  const Formed formed = form(wide.factors, 4);
  const Dense in_double = cosines_of(formed.heads);
  const Dense in_place = cosines_of(with_cancellation(formed.heads));
  CHECK(in_place(0, 1) != in_double(0, 1));  // otherwise the other cases of this file do not test float32
  CHECK(std::abs(in_place(0, 1) - in_double(0, 1)) < 1e-7);
}

TEST_CASE("weights that float32 products cannot serve are compared in double") {
  struct Row {
    const char* why;
    double left_scale, right_scale;
    bool cancel;
  };
  for (const Row& row :
       {Row{"products would underflow", 1e-30, 1, false}, Row{"products would overflow", 1, 1e30, false},
        Row{"one underflows as much as the other overflows", 1e-30, 1e30, false},
        Row{"nearly all of the circuit cancels", 1, 1, true}}) {
    CAPTURE(row.why);
    long_way::Normal normal(32);
    Dense left = normal.matrix(60, 160, row.left_scale);
    Dense right = normal.matrix(60, 160, row.right_scale);
    // On one side, the columns are nearly equal. On the other side, they are nearly equal with alternating
    // signs.
    for (std::size_t r = 0; row.cancel && r < 60; ++r) {
      const double base = normal();
      for (std::size_t c = 0; c < 160; ++c) {
        left(r, c) = base + 0.01 * left(r, c);
        right(r, c) = (c % 2 == 0 ? base : -base) + 0.01 * right(r, c);
      }
    }
    const WideHeads wide(left, right);
    const Formed formed = form(wide.factors, 4);
    const Dense cosines = cosines_of(with_cancellation(formed.heads));
    CHECK(largest_error(cosines, formed.circuits) < 1e-10);
    const Dense in_double = cosines_of(formed.heads);
    CHECK(std::ranges::equal(cosines.values(), in_double.values()));
  }
}

TEST_CASE("heads whose weights lie in unlike orientations, and sets of several sizes") {
  long_way::Normal normal(33);
  const WideHeads straight(normal.matrix(60, 160), normal.matrix(60, 160));
  const WideHeads turned(normal.matrix(60, 160), normal.matrix(60, 160), model::Orientation::out_in);
  Formed formed = form(straight.factors, 4);
  const Formed more = form(turned.factors, 4);
  formed.heads.insert(formed.heads.end(), more.heads.begin(), more.heads.end());
  formed.circuits.insert(formed.circuits.end(), more.circuits.begin(), more.circuits.end());
  const std::vector<ComparedHead> all = with_cancellation(formed.heads);
  const Dense whole = cosines_of(all);
  CHECK(largest_error(whole, formed.circuits) < 1e-7);

  // The cosine of a pair does not depend on its set or the number of threads.
  const std::vector<std::vector<ComparedHead>> sets{{}, {all[6], all[2]}, {all[3]}, {all[5], all[0], all[4]}};
  for (const std::size_t threads : {std::size_t{1}, std::size_t{4}}) {
    Pool pool(threads);
    const std::vector<Dense> parts = frobenius_cosines(sets, pool);
    REQUIRE(parts.size() == 4);
    CHECK(parts[0].rows() == 0);
    CHECK(std::abs(parts[1](0, 1) - whole(2, 6)) < 1e-15);
    CHECK(parts[1](0, 1) == parts[1](1, 0));
    CHECK(parts[2](0, 0) == 1);
    CHECK(std::abs(parts[3](0, 2) - whole(4, 5)) < 1e-8);
    CHECK(std::ranges::equal(cosines_of(all, threads).values(), whole.values()));
  }
}

TEST_CASE("a head without a norm has no similarity, the others keep theirs") {
  long_way::Normal normal(3);
  const StoredWeight q(normal.matrix(8, 6), model::Orientation::in_out);
  const StoredWeight k(normal.matrix(8, 6), model::Orientation::in_out);
  const CircuitFactors factors{CircuitFactor::of_outputs(q.linear, 2, {}),
                               CircuitFactor::of_outputs(k.linear, 2, {})};
  std::vector<ComparedHead> heads = form(factors, 3).heads;
  heads[1].norm = 0;
  const Dense cosines = cosines_of(heads);
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
  for (const model::Orientation orientation : {model::Orientation::in_out, model::Orientation::out_in}) {
    const StoredWeight stored(w, orientation);
    CircuitFactor factor = CircuitFactor::of_outputs(stored.linear, 3, {});
    const Dense before = read(factor, 1);
    factor.fold(gain);
    const Dense after = read(factor, 1);
    for (std::size_t r = 0; r < 4; ++r) {
      for (std::size_t c = 0; c < 3; ++c) {
        CHECK(after(r, c) == before(r, c) * static_cast<double>(gain[r]));
      }
    }
  }
}

/// d 512, 8 heads of width 64. In the specialised set, rows i d/h .. (i+1) d/h of head i are multiplied by 3
/// in W_Q and W_K.
constexpr std::size_t kTextD = 512;
constexpr std::size_t kTextH = 8;
constexpr std::size_t kTextK = kTextD / kTextH;

Dense draw_projections(long_way::Normal& normal, bool specialised) {
  Dense w = normal.matrix(kTextD, kTextD, std::sqrt(2.0 / (kTextD + kTextK)));
  for (std::size_t r = 0; specialised && r < kTextD; ++r) {
    const std::size_t head = r / kTextK;
    for (double& value : w.view().row(r).subspan(head * kTextK, kTextK)) value *= 3;
  }
  return w;
}

struct DrawResult {
  double mean_rank = 0;
  double mean = 0;
  double mean_abs = 0;
};

DrawResult measure_draw(long_way::Normal& normal, bool specialised) {
  const StoredWeight q(draw_projections(normal, specialised), model::Orientation::in_out);
  const StoredWeight k(draw_projections(normal, specialised), model::Orientation::in_out);
  const CircuitFactors factors{CircuitFactor::of_outputs(q.linear, kTextK, {}),
                               CircuitFactor::of_outputs(k.linear, kTextK, {})};
  DrawResult result;
  std::vector<ComparedHead> heads;
  for (std::size_t i = 0; i < kTextH; ++i) {
    Dense left = factors.left.columns(i);
    Dense right = factors.right.columns(i);
    const double mass = circuit_mass(left.view(), right.view());
    const auto s = linalg::svd_of_product(left.view(), right.view(), 0).values;
    double square = 0;
    for (const double value : s) square += value * value;
    heads.push_back({&factors, i, std::sqrt(square), mass / std::sqrt(square)});
    result.mean_rank += linalg::effective_rank(s).value() / kTextH;
  }
  const Dense cosines = cosines_of(heads);
  const OffDiagonal means = off_diagonal(cosines.view());
  result.mean = means.mean.value();
  result.mean_abs = means.mean_abs.value();
  return result;
}

TEST_CASE("random heads and heads specialised by rows, as the texts draw them") {
  struct Row {
    bool specialised;
    double rank, rank_within, mean_abs;
  };
  // The mean |similarity| over the 28 pairs of one draw has a deviation of 0.0002, so the test averages
  // draws.
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
}  // namespace attnctl::analysis

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "forward/layers/layers.hpp"

using attnctl::OwnedMatrix;
using attnctl::Pool;
using attnctl::forward::Dense;
using attnctl::model::Activation;
using attnctl::model::Linear;
using attnctl::model::Orientation;

namespace {

OwnedMatrix<float> random_matrix(std::size_t rows, std::size_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  OwnedMatrix<float> matrix(rows, cols);
  for (float& value : matrix.values()) value = normal(random);
  return matrix;
}

/// Returns x W + b, computed in double.
OwnedMatrix<double> define(const OwnedMatrix<float>& x, const Linear& weights) {
  const bool in_out = weights.orientation == Orientation::in_out;
  OwnedMatrix<double> out(x.rows(), weights.out());
  for (std::size_t i = 0; i < x.rows(); ++i) {
    for (std::size_t o = 0; o < weights.out(); ++o) {
      double sum = weights.bias.empty() ? 0 : double{weights.bias[o]};
      for (std::size_t c = 0; c < weights.in(); ++c) {
        sum += double{x(i, c)} * double{in_out ? weights.stored(c, o) : weights.stored(o, c)};
      }
      out(i, o) = sum;
    }
  }
  return out;
}

struct Size {
  std::size_t rows, in, out;
};

const std::vector<Size> kSizes{{1, 1, 1},    {1, 24, 37},   {3, 7, 130},  {16, 64, 200},
                               {130, 20, 5}, {300, 31, 70}, {1030, 8, 33}};

void check_dense(Pool& pool, const Size& size, Orientation orientation) {
  const bool in_out = orientation == Orientation::in_out;
  const OwnedMatrix<float> x = random_matrix(size.rows, size.in, 1);
  const OwnedMatrix<float> w =
      in_out ? random_matrix(size.in, size.out, 2) : random_matrix(size.out, size.in, 2);
  const OwnedMatrix<float> bias = random_matrix(1, size.out, 3);
  const Linear weights{w.view(), orientation, bias.values()};
  const OwnedMatrix<double> want = define(x, weights);
  OwnedMatrix<float> out(size.rows, size.out);
  OwnedMatrix<float> sum(size.rows, size.out);
  OwnedMatrix<float> active(size.rows, size.out);
  std::fill(sum.values().begin(), sum.values().end(), 2.0F);
  const std::vector<Dense> products{{x.view(), weights, out.view()},
                                    {x.view(), weights, sum.view(), std::nullopt, true},
                                    {x.view(), weights, active.view(), Activation::relu}};
  attnctl::forward::run_dense(pool, products);
  double worst = 0;
  for (std::size_t i = 0; i < size.rows; ++i) {
    for (std::size_t o = 0; o < size.out; ++o) {
      worst = std::max(worst, std::abs(want(i, o) - double{out(i, o)}));
      worst = std::max(worst, std::abs(want(i, o) + 2 - double{sum(i, o)}));
      worst = std::max(worst, std::abs(std::max(want(i, o), 0.0) - double{active(i, o)}));
    }
  }
  CHECK(worst <= 2e-5);
}

}  // namespace

TEST_CASE("x W + b for both orientations and all slab sizes") {
  for (const std::size_t threads : {1U, 3U, 4U}) {
    Pool pool(threads);
    for (const Size& size : kSizes) {
      CAPTURE(threads);
      CAPTURE(size.rows);
      CAPTURE(size.out);
      check_dense(pool, size, Orientation::in_out);
      check_dense(pool, size, Orientation::out_in);
    }
  }
}

TEST_CASE("a gated product is act(x G) (x U)") {
  Pool pool(3);
  for (const Size& size : kSizes) {
    CAPTURE(size.rows);
    const OwnedMatrix<float> x = random_matrix(size.rows, size.in, 1);
    const OwnedMatrix<float> g = random_matrix(size.out, size.in, 2);
    const OwnedMatrix<float> u = random_matrix(size.in, size.out, 3);
    const Linear gate{g.view(), Orientation::out_in, {}};
    const Linear up{u.view(), Orientation::in_out, {}};
    OwnedMatrix<float> factor(size.rows, size.out);
    OwnedMatrix<float> out(size.rows, size.out);
    attnctl::forward::run_gated(pool, {x.view(), gate, factor.view(), Activation::silu},
                                {x.view(), up, out.view()});
    const OwnedMatrix<double> want_gate = define(x, gate);
    const OwnedMatrix<double> want_up = define(x, up);
    double worst = 0;
    for (std::size_t i = 0; i < size.rows; ++i) {
      for (std::size_t o = 0; o < size.out; ++o) {
        const double want = want_gate(i, o) / (1 + std::exp(-want_gate(i, o))) * want_up(i, o);
        const double scale = (1 + std::abs(want_gate(i, o))) * (1 + std::abs(want_up(i, o)));
        worst = std::max(worst, std::abs(want - double{out(i, o)}) / scale);
      }
    }
    CHECK(worst <= 2e-5);
  }
}

TEST_CASE("norms and sums of rows do not depend on the pool") {
  Pool one(1);
  Pool four(4);
  const OwnedMatrix<float> x = random_matrix(700, 96, 1);
  const OwnedMatrix<float> gain = random_matrix(1, 96, 2);
  const attnctl::model::NormConfig layer{attnctl::model::NormKind::layer, 1e-5F, 0};
  const attnctl::model::NormConfig rms{attnctl::model::NormKind::rms, 1e-5F, 0};
  for (const attnctl::model::NormConfig& config : {layer, rms, attnctl::model::NormConfig{}}) {
    OwnedMatrix<float> a(700, 96);
    OwnedMatrix<float> b(700, 96);
    attnctl::forward::apply_norm(one, config, {gain.values(), {}}, x.view(), a.view());
    attnctl::forward::apply_norm(four, config, {gain.values(), {}}, x.view(), b.view());
    CHECK(std::equal(a.values().begin(), a.values().end(), b.values().begin()));
    const bool copies = config.kind == attnctl::model::NormKind::none;
    CHECK(std::equal(a.values().begin(), a.values().end(), x.values().begin()) == copies);
    attnctl::forward::add_rows(four, x.view(), b.view());
    CHECK(b(699, 95) == a(699, 95) + x(699, 95));
    CHECK(b(0, 0) == a(0, 0) + x(0, 0));
  }
}

#include "linalg/kernels/kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

using attnctl::linalg::Kernels;
using attnctl::linalg::WeightMoments;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

std::vector<const Kernels*> all_sets() {
  std::vector<const Kernels*> sets;
  for (const std::string_view name : {"sse2", "baseline", "avx2", "avx512"}) {
    if (const Kernels* set = attnctl::linalg::kernels_named(name)) sets.push_back(set);
  }
  return sets;
}

/// Returns the distance in units in the last place of the expected float. For subnormal results the unit is
/// that of the smallest normal number.
double ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  if (std::isinf(rounded)) return got == rounded ? 0 : double{kInfinity};
  const float magnitude = std::max(std::abs(rounded), std::numeric_limits<float>::min());
  const double unit = double{magnitude} - double{std::nextafter(magnitude, 0.0F)};
  const bool power_of_two = std::nextafter(magnitude, kInfinity) - magnitude > static_cast<float>(unit);
  return std::abs(double{got} - want) / (power_of_two ? 2 * unit : unit);
}

/// Returns every 2,039th float of [low, high], which covers all exponents and many mantissas.
std::vector<float> floats_of(float low, float high) {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFFU; bits += 2039) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (value >= low && value <= high) values.push_back(value);
  }
  return values;
}

std::vector<float> normal_values(std::size_t n, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

const std::vector<std::size_t> kLengths{1,  2,  3,  4,  7,   8,    15,   16,   17,  31,
                                        33, 63, 64, 65, 100, 1023, 1024, 1025, 3000};

}  // namespace

TEST_CASE("the best set has a name, and unknown names return null") {
  CHECK_FALSE(all_sets().empty());
  CHECK(attnctl::linalg::kernels_named(attnctl::linalg::kernels().name) == &attnctl::linalg::kernels());
  CHECK(attnctl::linalg::kernels_named("mmx") == nullptr);
}

TEST_CASE("exp, measured through a softmax of two scores, is within 2 ulp over its whole range") {
  for (const Kernels* set : all_sets()) {
    CAPTURE(set->name);
    double worst = 0;
    // softmax(0, x) = (1, e^x) / (1 + e^x): for x below -20 the sum is 1 and the second weight is e^x.
    for (const float x : floats_of(-2000.0F, -20.0F)) {
      std::vector<float> row{0, x};
      set->softmax(row, row);
      worst = std::max(worst, ulps(row[1], std::exp(double{x})));
      if (x < -104 && row[1] != 0) worst = double{kInfinity};
    }
    CHECK(worst <= 2);
    for (const float x : floats_of(-20.0F, 0.0F)) {
      std::vector<float> row{0, x};
      set->softmax(row, row);
      worst = std::max(worst, ulps(row[1], std::exp(double{x}) / (1 + std::exp(double{x}))));
    }
    CHECK(worst <= 3);  // includes the rounding of the factor
  }
}

TEST_CASE("softmax equals its definition in double for every length") {
  for (const Kernels* set : all_sets()) {
    CAPTURE(set->name);
    for (const std::size_t n : kLengths) {
      for (const float scale : {0.1F, 1.0F, 30.0F}) {
        CAPTURE(n);
        const std::vector<float> scores = normal_values(n, scale, static_cast<unsigned>(n));
        std::vector<float> pattern(n + 1, 7.0F);
        CHECK(set->softmax(scores, std::span(pattern).first(n)));
        const double most = *std::max_element(scores.begin(), scores.end());
        double total = 0;
        for (const float score : scores) total += std::exp(double{score} - most);
        double worst = 0;
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) {
          worst = std::max(worst, std::abs(pattern[i] - std::exp(double{scores[i]} - most) / total));
          sum += double{pattern[i]};
        }
        CHECK(worst <= 3e-7);
        CHECK(std::abs(sum - 1) <= 1e-6);
        CHECK(pattern[n] == 7.0F);  // values after the row must not change
      }
    }
  }
}

TEST_CASE("softmax of masked, extreme and undefined rows") {
  for (const Kernels* set : all_sets()) {
    CAPTURE(set->name);
    for (const std::size_t n : {1U, 5U, 16U, 70U}) {
      CAPTURE(n);
      std::vector<float> row(n, -kInfinity);
      CHECK_FALSE(set->softmax(row, row));
      CHECK(std::all_of(row.begin(), row.end(), [](float p) { return p == 0; }));

      std::fill(row.begin(), row.end(), -kInfinity);
      row.back() = -1e30F;
      CHECK(set->softmax(row, row));
      CHECK(row.back() == 1);
      CHECK(std::all_of(row.begin(), row.end() - 1, [](float p) { return p == 0; }));

      std::fill(row.begin(), row.end(), -1e30F);
      row.front() = 1e30F;
      CHECK(set->softmax(row, row));
      CHECK(row.front() == 1);
      CHECK(std::all_of(row.begin() + 1, row.end(), [](float p) { return p == 0; }));

      for (const float bad : {kNotANumber, kInfinity}) {
        for (const float other : {0.0F, -kInfinity}) {
          std::fill(row.begin(), row.end(), other);
          row[n / 2] = bad;
          CHECK(set->softmax(row, row));
          CHECK(std::all_of(row.begin(), row.end(), [](float p) { return std::isnan(p); }));
        }
      }
    }
    CHECK_FALSE(set->softmax({}, {}));
  }
}

namespace {

struct ActivationRow {
  std::string_view name;
  void (*Kernels::*kernel)(std::span<float>);
  double (*want)(double);
  double at_minus_infinity;
  double tail_ulps = 2;  // for x below -0.5
};

const std::vector<ActivationRow> kActivations{
    {"gelu_erf", &Kernels::gelu_erf, [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); },
     double{kNotANumber}, 4},
    {"gelu_tanh", &Kernels::gelu_tanh,
     [](double x) {
       return x / (1 + std::exp(-2 * std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
     },
     double{kNotANumber}},
    {"silu", &Kernels::silu, [](double x) { return x / (1 + std::exp(-x)); }, double{kNotANumber}},
    {"relu", &Kernels::relu, [](double x) { return std::max(x, 0.0); }, 0},
    {"relu_squared", &Kernels::relu_squared, [](double x) { return x < 0 ? 0 : x * x; }, 0},
    {"tanh", &Kernels::tanh, [](double x) { return std::tanh(x); }, -1},
};

}  // namespace

TEST_CASE("activations are within their error bounds over all floats") {
  constexpr float most = std::numeric_limits<float>::max();
  const std::vector<float> inputs = floats_of(-most, most);
  for (const ActivationRow& row : kActivations) {
    std::vector<double> wanted(inputs.size());
    std::transform(inputs.begin(), inputs.end(), wanted.begin(),
                   [&](float x) { return row.want(double{x}); });
    for (const Kernels* set : all_sets()) {
      CAPTURE(set->name);
      CAPTURE(row.name);
      std::vector<float> values = inputs;
      (set->*row.kernel)(values);
      double worst = 0;
      double worst_of_tail = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        double& largest = inputs[i] < -0.5F ? worst_of_tail : worst;
        const double distance = ulps(values[i], wanted[i]);
        if (!(distance <= largest)) largest = distance;  // also keeps a NaN
      }
      CHECK(worst <= 2);
      CHECK(worst_of_tail <= row.tail_ulps);
    }
  }
}

TEST_CASE("activations of zeros, infinities and NaN") {
  for (const Kernels* set : all_sets()) {
    for (const ActivationRow& row : kActivations) {
      CAPTURE(set->name);
      CAPTURE(row.name);
      std::vector<float> values{kNotANumber, 0.0F, -0.0F, 0.5F, kInfinity, -kInfinity};
      (set->*row.kernel)(values);
      CHECK(std::isnan(values[0]));
      CHECK(values[1] == 0);
      CHECK(values[2] == 0);
      CHECK(ulps(values[3], row.want(0.5)) <= 2);
      CHECK(values[4] == (row.name == "tanh" ? 1 : kInfinity));
      CHECK((double{values[5]} == row.at_minus_infinity ||
             (std::isnan(values[5]) && std::isnan(row.at_minus_infinity))));
    }
  }
}

TEST_CASE("the activation of an element depends only on its value") {
  std::vector<float> inputs = normal_values(200, 3, 9);
  for (std::size_t i = 0; i < inputs.size(); i += 7) inputs[i] *= 40;
  for (const Kernels* set : all_sets()) {
    for (const ActivationRow& row : kActivations) {
      CAPTURE(set->name);
      CAPTURE(row.name);
      std::vector<float> together = inputs;
      (set->*row.kernel)(together);
      std::vector<float> shifted = inputs;
      (set->*row.kernel)(std::span(shifted).subspan(1, 150));
      bool equal = std::equal(together.begin() + 1, together.begin() + 151, shifted.begin() + 1);
      equal = equal && shifted[0] == inputs[0] &&
              std::equal(inputs.begin() + 151, inputs.end(), shifted.begin() + 151);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        float alone = inputs[i];
        (set->*row.kernel)({&alone, 1});
        equal = equal && alone == together[i];
      }
      CHECK(equal);
    }
  }
}

TEST_CASE("norms equal their definitions in double for every length") {
  for (const Kernels* set : all_sets()) {
    CAPTURE(set->name);
    for (const std::size_t n : kLengths) {
      CAPTURE(n);
      std::vector<float> x = normal_values(n, 2, 3);
      for (float& value : x) value += 5;
      const std::vector<float> gain = normal_values(n, 1, 4);
      const std::vector<float> bias = normal_values(n, 1, 5);
      double mean = 0;
      double square = 0;
      for (const float value : x) mean += double{value} / static_cast<double>(n);
      double variance = 0;
      for (const float value : x) {
        variance += std::pow(double{value} - mean, 2) / static_cast<double>(n);
        square += std::pow(double{value}, 2) / static_cast<double>(n);
      }
      constexpr float eps = 1e-5F;
      std::vector<float> with(n);
      std::vector<float> without(n);
      std::vector<float> rms(n);
      set->layer_norm(x, gain, bias, eps, with);
      set->layer_norm(x, {}, {}, eps, without);
      set->rms_norm(x, gain, eps, rms);
      double worst = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double normed = (double{x[i]} - mean) / std::sqrt(variance + double{eps});
        worst = std::max(worst, std::abs(double{without[i]} - normed));
        worst = std::max(worst, std::abs(double{with[i]} - (normed * double{gain[i]} + double{bias[i]})));
        const double scaled = double{x[i]} / std::sqrt(square + double{eps}) * double{gain[i]};
        worst = std::max(worst, std::abs(double{rms[i]} - scaled));
      }
      CHECK(worst <= 5e-6);
    }
  }
}

TEST_CASE("the norm of equal values is the bias for any eps") {
  for (const Kernels* set : all_sets()) {
    for (const float value : {0.0F, 0.1F, -3.3333F, 1e6F}) {
      CAPTURE(set->name);
      CAPTURE(value);
      const std::vector<float> x(24, value);
      const std::vector<float> bias(24, 0.25F);
      std::vector<float> out(24);
      set->layer_norm(x, {}, bias, 1e-12F, out);
      for (const float got : out) CHECK(std::abs(got - 0.25F) <= 1e-6F);
    }
    std::vector<float> zeros(10);
    set->rms_norm(zeros, {}, 1e-6F, zeros);
    for (const float got : zeros) CHECK(got == 0);
  }
}

TEST_CASE("a NaN in a row makes its norm NaN") {
  for (const Kernels* set : all_sets()) {
    std::vector<float> x(20, 1.0F);
    x[13] = kNotANumber;
    std::vector<float> out(20);
    set->layer_norm(x, {}, {}, 1e-5F, out);
    CHECK(std::isnan(out[0]));
    set->rms_norm(x, {}, 1e-5F, out);
    CHECK(std::isnan(out[0]));
  }
}

TEST_CASE("elementwise sums and products") {
  for (const Kernels* set : all_sets()) {
    for (const std::size_t n : kLengths) {
      const std::vector<float> x = normal_values(n, 1, 6);
      const std::vector<float> y = normal_values(n, 1, 7);
      std::vector<float> sum = y;
      std::vector<float> product = y;
      set->add(x, sum);
      set->multiply(x, product);
      bool equal = true;
      for (std::size_t i = 0; i < n; ++i) {
        equal = equal && sum[i] == y[i] + x[i] && product[i] == y[i] * x[i];
      }
      CHECK(equal);
    }
  }
}

TEST_CASE("sum of x ln x") {
  for (const Kernels* set : all_sets()) {
    CAPTURE(set->name);
    for (const std::size_t n : kLengths) {
      std::vector<float> x = normal_values(n, 1, 8);
      set->softmax(x, x);
      if (n > 2) x[n / 2] = 0;
      double want = 0;
      for (const float value : x) want += value > 0 ? double{value} * std::log(double{value}) : 0;
      CHECK(std::abs(set->sum_x_log_x(x) - want) <= 1e-6 * std::max(1.0, std::abs(want)));
    }
    CHECK(set->sum_x_log_x({}) == 0);
    CHECK(set->sum_x_log_x(std::vector<float>{0, 1, 0}) == 0);
    CHECK(std::abs(set->sum_x_log_x(std::vector<float>{1e-40F, 0.5F}) - 0.5 * std::log(0.5)) <= 1e-7);
    CHECK(std::isnan(set->sum_x_log_x(std::vector<float>{0.5F, kNotANumber})));
  }
}

TEST_CASE("x ln x of single numbers, for all significands and at the borders of table parts") {
  for (const Kernels* set : all_sets()) {
    CAPTURE(set->name);
    double worst = 0;
    const auto look = [&](float x) {
      const double want = std::log2(double{x});
      const double got = set->sum_x_log_x(std::vector<float>{x}) / (double{x} * std::numbers::ln2);
      worst = std::max(worst, std::abs(got - want) / std::max(1.0, 2 * std::abs(want)));
    };
    for (const int exponent : {-126, -40, -3, -2, -1, 0, 1}) {
      for (int i = 0; i < 4096; ++i) {
        const float x = std::ldexp(1 + static_cast<float>(i) / 4096, exponent);
        look(x);
        look(std::nextafter(x, 4 * x));
        if (exponent > -126) look(std::nextafter(x, 0.0F));
      }
    }
    CHECK(worst <= 1.3e-7);  // errors of the logarithm and of the rounding of the product
    float below = 1;
    for (int i = 0; i < 64; ++i) {  // the result must not be a negative entropy
      below = std::nextafter(below, 0.0F);
      CHECK(set->sum_x_log_x(std::vector<float>{below}) <= 0);
    }
  }
}

TEST_CASE("all_finite finds NaN and infinity at every position") {
  for (const Kernels* set : all_sets()) {
    CAPTURE(set->name);
    for (const std::size_t n : kLengths) {
      CAPTURE(n);
      std::vector<float> x = normal_values(n, 1e38F, 12);
      for (float& value : x) value = std::clamp(value, -3e38F, 3e38F);
      CHECK(set->all_finite(x));
      for (std::size_t i = 0; i < n; i += n < 100 ? 1 : 97) {
        const float before = x[i];
        for (const float bad : {kInfinity, -kInfinity, kNotANumber}) {
          x[i] = bad;
          CHECK_FALSE(set->all_finite(x));
        }
        x[i] = before;
      }
    }
    CHECK_FALSE(set->all_finite(std::vector<float>{kInfinity, -kInfinity}));
  }
}

TEST_CASE("moments of weights") {
  for (const Kernels* set : all_sets()) {
    CAPTURE(set->name);
    for (const std::size_t n : kLengths) {
      CAPTURE(n);
      std::vector<float> weights = normal_values(n, 1, 11);
      set->softmax(weights, weights);
      for (const std::ptrdiff_t offset : {std::ptrdiff_t{0}, -static_cast<std::ptrdiff_t>(n) / 3}) {
        WeightMoments want;
        for (std::size_t j = 0; j < n; ++j) {
          const auto place = static_cast<double>(offset + static_cast<std::ptrdiff_t>(j));
          want.total += double{weights[j]};
          want.distance += double{weights[j]} * std::abs(place);
          want.signed_distance += double{weights[j]} * place;
          want.largest = std::max(want.largest, weights[j]);
        }
        const WeightMoments got = set->weight_moments(weights, offset);
        CHECK(std::abs(got.total - want.total) <= 5e-7);
        CHECK(std::abs(got.distance - want.distance) <= 5e-7 * (1 + want.distance));
        CHECK(std::abs(got.signed_distance - want.signed_distance) <= 5e-7 * (1 + want.distance));
        CHECK(got.largest == want.largest);
      }
    }
    CHECK(set->weight_moments({}, 3).total == 0);
    CHECK(set->weight_moments(std::vector<float>{0.25F}, -8).signed_distance == -2);
    CHECK(std::isnan(set->weight_moments(std::vector<float>{0.5F, kNotANumber}, 0).distance));
  }
}

TEST_CASE("sum of x ln x of sums") {
  for (const Kernels* set : all_sets()) {
    CAPTURE(set->name);
    for (const std::size_t n : kLengths) {
      std::vector<float> a = normal_values(n, 1, 9);
      std::vector<float> b = normal_values(n, 1, 10);
      set->softmax(a, a);
      set->softmax(b, b);
      if (n > 2) a[n / 2] = b[n / 2] = a[0] = 0;
      double want = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double sum = double{a[i]} + double{b[i]};
        want += sum > 0 ? sum * std::log(sum) : 0;
      }
      CHECK(std::abs(set->sum_x_log_x_of_sum(a, b) - want) <= 1e-6 * std::max(1.0, std::abs(want)));
      CHECK(set->sum_x_log_x_of_sum(a, b) == set->sum_x_log_x_of_sum(b, a));
      std::vector<float> twice = a;
      set->scale(2, twice);
      CHECK(set->sum_x_log_x_of_sum(a, a) == set->sum_x_log_x(twice));
    }
    CHECK(set->sum_x_log_x_of_sum({}, {}) == 0);
    CHECK(std::isnan(
        set->sum_x_log_x_of_sum(std::vector<float>{0.5F, kNotANumber}, std::vector<float>{0.5F, 0.5F})));
  }
}

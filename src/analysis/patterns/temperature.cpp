#include "analysis/patterns/temperature.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "analysis/head_axes.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

// The integrals use the trapezoidal rule. Its error is about exp(-2 pi a / step) for functions that are
// analytic and decay in the strip |Im y| < a. For exp(-exp(y)), a is pi / 2.
constexpr double kStep = 0.25;
constexpr double kDeviations = 9;  // integration range of a normal variable: +-9 standard deviations
constexpr int kSteps = static_cast<int>(2 * kDeviations / kStep);
constexpr double kSmallestExp = -37;  // for smaller y, 1 - exp(-exp(y)) is below 1e-16
constexpr double kLargestExp = 5;     // for larger y, exp(-exp(y)) is below 1e-64

double normal_density(double x) {
  return std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

double normal_share_below(double x) {
  return std::erfc(-x / std::numbers::sqrt2) / 2;
}

/// phi(u) = E exp(-exp(u + tau g)), with g standard normal, and d phi / d tau, at u = first + i * step.
struct LaplaceTransform {
  double first = 0;
  double step = kStep;
  std::vector<double> value;
  std::vector<double> slope;
};

/// Returns the grid of u on which phi(u)^m is integrated, with phi still 0. The step is a multiple of kStep.
LaplaceTransform grid_for(double tau) {
  LaplaceTransform grid;
  const double multiple = std::max(1.0, std::floor(tau / 8));
  grid.step = kStep * multiple;
  grid.first = -grid.step * std::ceil((kDeviations * tau - kSmallestExp) / grid.step);
  const double last = kDeviations * tau + kLargestExp + 1;
  const auto points = static_cast<std::size_t>(std::ceil((last - grid.first) / grid.step)) + 1;
  grid.value.resize(points);
  grid.slope.resize(points);
  return grid;
}

/// Computes phi for tau < 1 and its derivative by tau: applies the trapezoidal rule to the integral over g.
void integrate_over_scores(double tau, LaplaceTransform& grid) {
  for (std::size_t i = 0; i < grid.value.size(); ++i) {
    const double u = grid.first + grid.step * static_cast<double>(i);
    for (int step = 0; step <= kSteps; ++step) {
      const double g = -kDeviations + step * kStep;
      const double y = u + tau * g;
      if (y > 6) break;
      const double term = kStep * normal_density(g) * std::exp(-std::exp(y));
      grid.value[i] += term;
      grid.slope[i] -= g * std::exp(y) * term;
    }
  }
}

/// Computes phi and its derivative by tau for tau >= 1 from phi(u) = int e^y exp(-e^y) Phi((y - u) / tau) dy,
/// where Phi is the normal distribution function. u and y are multiples of kStep, so Phi is evaluated at few
/// points.
void integrate_over_exponents(double tau, LaplaceTransform& grid) {
  const auto stride = static_cast<std::size_t>(std::lround(grid.step / kStep));
  const auto terms = static_cast<std::size_t>((kLargestExp - kSmallestExp) / kStep);
  std::vector<double> gumbel(terms);
  for (std::size_t t = 0; t < terms; ++t) {
    const double y = kSmallestExp + kStep * static_cast<double>(t);
    gumbel[t] = kStep * std::exp(y - std::exp(y));
  }
  // The points (y - u) / tau in ascending order. The first point has the last u and the first y.
  const std::size_t back = (grid.value.size() - 1) * stride;
  const double last = grid.first + kStep * static_cast<double>(back);
  std::vector<double> share(back + terms);
  std::vector<double> slope(back + terms);
  for (std::size_t p = 0; p < share.size(); ++p) {
    const double x = (kSmallestExp - last + kStep * static_cast<double>(p)) / tau;
    share[p] = normal_share_below(x);
    slope[p] = -x / tau * normal_density(x);
  }
  for (std::size_t i = 0; i < grid.value.size(); ++i) {
    const std::size_t at = back - i * stride;
    for (std::size_t t = 0; t < terms; ++t) {
      grid.value[i] += gumbel[t] * share[at + t];
      grid.slope[i] += gumbel[t] * slope[at + t];
    }
  }
}

}  // namespace

double normal_score_entropy(double tau, RowsByKeys rows_by_keys) {
  LaplaceTransform phi = grid_for(tau);
  tau < 1 ? integrate_over_scores(tau, phi) : integrate_over_exponents(tau, phi);
  double rows = 0;
  for (const std::uint64_t count : rows_by_keys) rows += static_cast<double>(count);
  const double width = std::max(1.0, tau);
  double mean_log = 0;  // E ln Z + gamma
  double slope = 0;     // d E ln Z / d tau
  for (std::size_t i = 0; i < phi.value.size(); ++i) {
    double sum = 0;     // of rows_by_keys[m] phi^m over m
    double by_phi = 0;  // its derivative
    for (std::size_t m = rows_by_keys.size(); m-- > 0;) {
      by_phi = by_phi * phi.value[i] + sum;
      sum = sum * phi.value[i] + static_cast<double>(rows_by_keys[m]);
    }
    // Replaces 1[u < 0] by a smooth step function with the same integral.
    const double u = phi.first + phi.step * static_cast<double>(i);
    mean_log += phi.step * (normal_share_below(-u / width) - sum / rows);
    slope -= phi.step * by_phi / rows * phi.slope[i];
  }
  return mean_log - std::numbers::egamma - tau * slope;
}

std::optional<double> temperature_of_entropy(double mean_entropy, RowsByKeys rows_by_keys) {
  constexpr double bound = 1000;
  double low = -std::log(bound);  // ln tau; entropy decreases with tau
  double high = std::log(bound);
  const auto excess = [&](double log_tau) {
    return normal_score_entropy(std::exp(log_tau), rows_by_keys) - mean_entropy;
  };
  double at_low = excess(low);
  double at_high = excess(high);
  if (!(at_low >= 0 && at_high <= 0)) return std::nullopt;
  // Regula falsi, Illinois variant: if an end of the interval is kept twice, its function value is halved.
  int kept = 0;
  while (high - low > 1e-8) {
    double middle = (low * at_high - high * at_low) / (at_high - at_low);
    if (!(middle > low && middle < high)) middle = (low + high) / 2;
    const double at_middle = excess(middle);
    if (std::abs(at_middle) < 1e-10) return std::exp(-middle);
    if (at_middle > 0) {
      low = middle;
      at_low = at_middle;
      at_high *= kept == 1 ? 0.5 : 1;
      kept = 1;
    } else {
      high = middle;
      at_high = at_middle;
      at_low *= kept == -1 ? 0.5 : 1;
      kept = -1;
    }
  }
  return std::exp(-(low + high) / 2);
}

std::uint64_t Temperatures::memory(const model::Model& /*model*/, const input::Batch& batch) const {
  return (heads_.size() + 1) * (sizeof(ScoreSums) + (batch.most_keys() + 1) * sizeof(std::uint64_t));
}

void Temperatures::panel(const forward::AttentionPanel& panel) {
  const auto head = head_index(heads_, {panel.layer, panel.head});
  if (!head) return;
  ScoreSums& state = states_[*head];
  state.rows_by_keys.resize(std::max(state.rows_by_keys.size(), panel.scores.cols + 1));
  for (std::size_t r = 0; r < panel.pattern.rows; ++r)
    add_row(state, panel.pattern.row(r), panel.scores.row(r));
}

void Temperatures::add_row(ScoreSums& state, std::span<const float> pattern,
                           std::span<const float> scores) const {
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  std::size_t keys = 0;
  double sum = 0;
  for (const float score : scores) {
    if (score == hidden) continue;
    sum += double{score};
    ++keys;
  }
  if (keys < 2) return;
  if (!std::isfinite(sum)) {
    state.finite = false;
    return;
  }
  const double mean = sum / static_cast<double>(keys);
  float largest = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (scores[j] == hidden) continue;
    const double deviation = static_cast<double>(scores[j]) - mean;
    state.squared_deviations += deviation * deviation;
    largest = std::max(largest, pattern[j]);
  }
  state.freedom += static_cast<double>(keys - 1);
  state.entropy -= linalg::kernels().sum_x_log_x(pattern);
  if (static_cast<double>(largest) > saturation_) ++state.saturated;
  ++state.rows_by_keys[keys];
  ++state.rows;
}

std::vector<HeadTemperature> Temperatures::finish(Pool& pool) const {
  std::vector<HeadTemperature> result(heads_.size());
  pool.run(heads_.size(), [&](std::size_t i, std::size_t /*worker*/) {
    const ScoreSums& state = states_[i];
    HeadTemperature& head = result[i];
    head.head = heads_[i];
    head.rows = state.rows;
    if (!state.finite || state.rows == 0) return;
    const auto rows = static_cast<double>(state.rows);
    head.score_variance = state.squared_deviations / state.freedom;
    head.entropy = std::max(0.0, state.entropy / rows);
    head.temperature = temperature_of_entropy(*head.entropy, state.rows_by_keys);
    head.saturated = static_cast<double>(state.saturated) / rows;
  });
  return result;
}

}  // namespace attnctl::analysis

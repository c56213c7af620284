#include "analysis/weights/ranks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attnctl {
namespace {

/// Returns the largest value (0 without values), or nullopt if a value is not finite.
std::optional<double> largest(std::span<const double> values) {
  double top = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) return std::nullopt;
    top = std::max(top, value);
  }
  return top;
}

}  // namespace

std::optional<double> effective_rank(std::span<const double> singular_values) {
  const auto top = largest(singular_values);
  if (!top || *top == 0) return std::nullopt;
  // Divides by the largest value so that the sum cannot overflow or underflow.
  double sum = 0;
  for (const double value : singular_values) sum += value / *top;
  double entropy = 0;
  for (const double value : singular_values) {
    const double p = value / *top / sum;
    if (p > 0) entropy -= p * std::log(p);
  }
  return std::exp(entropy);
}

std::optional<double> stable_rank(std::span<const double> singular_values) {
  const auto top = largest(singular_values);
  if (!top || *top == 0) return std::nullopt;
  double sum = 0;
  for (const double value : singular_values) sum += (value / *top) * (value / *top);
  return sum;
}

std::optional<std::size_t> numerical_rank(std::span<const double> singular_values, std::size_t rows,
                                          std::size_t cols) {
  const auto top = largest(singular_values);
  if (!top) return std::nullopt;
  const double tolerance = static_cast<double>(std::max(rows, cols)) *
                           static_cast<double>(std::numeric_limits<float>::epsilon()) * *top;
  return static_cast<std::size_t>(
      std::count_if(singular_values.begin(), singular_values.end(),
                    [&](double value) { return value > tolerance && value > 0; }));
}

}  // namespace attnctl

#pragma once

#include <cmath>

#include "base/matrix_view.hpp"

// Massive activations: values of the residual stream that are far larger than the others (Sun et al. 2024).
namespace attnctl::analysis {

/// Returns the median of the magnitudes of all values: of an even number, the mean of the two in the middle.
/// Returns NaN if a value is not finite, and kUndefined without values.
[[nodiscard]] double median_magnitude(MatrixView<const float> values);

/// Returns whether a value is massive (Sun et al. 2024): its magnitude is above 100 and above 1000 times
/// `median`, the median magnitude of all values of the residual stream of its layer and input.
[[nodiscard]] inline bool is_massive(float value, double median) {
  const double size = std::abs(double{value});
  return size > 100 && size > 1000 * median;
}

}  // namespace attnctl::analysis

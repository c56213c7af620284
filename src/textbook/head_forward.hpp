#pragma once

#include <cmath>
#include <span>
#include <utility>

#include "base/matrix_view.hpp"
#include "textbook/gradients.hpp"

namespace attnctl::experiments {

/// The inputs of the three projections. They are all x, except when one route is perturbed separately.
struct RouteInputs {
  MatrixView<const double> query, key, value;  // [n, d]
};

struct HeadForward {
  OwnedMatrix<double> query, key, value;  // [n, k], [n, k], [n, v]
  OwnedMatrix<double> pattern;            // [n, n]
};

[[nodiscard]] HeadForward head_forward(const HeadMatrices& head, const RouteInputs& x, double scale);

/// Returns scale a b.
[[nodiscard]] OwnedMatrix<double> product(MatrixView<const double> a, MatrixView<const double> b,
                                          double scale = 1);

/// Replaces a non-empty row by its softmax.
void softmax(std::span<double> row);

}  // namespace attnctl::experiments

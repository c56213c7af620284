#pragma once

#include <optional>
#include <span>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// out = act(x W + b), or out += x W + b.
struct Dense {
  MatrixView<const float> x;  // [rows, in]
  Linear weights;             // [in, out], not factorised
  MatrixView<float> out;      // [rows, out]
  std::optional<Activation> activation = std::nullopt;
  bool accumulate = false;
};

/// Computes products that do not depend on each other, cut into slabs of rows and columns that the workers
/// share, each with single-threaded BLAS.
void run_dense(Pool& pool, std::span<const Dense> products);

/// out of `up` = act(gate) * up by element; both have the same shapes.
void run_gated(Pool& pool, const Dense& gate, const Dense& up);

}  // namespace attnctl::forward

#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl {

/// Everything of one sequence's pass in float64.
struct ReferencePass {
  struct Layer {
    std::vector<OwnedMatrix<double>> pattern;  // [heads][n, m]
    std::vector<OwnedMatrix<double>> scores;   // [heads][n, m], masked = -inf
    std::vector<OwnedMatrix<double>> z;        // [heads][n, v]; empty without W_V
    OwnedMatrix<double> output;                // [n, d_out]
  };
  std::vector<Layer> layers;   // 0 .. last asked for
  OwnedMatrix<double> logits;  // [n, vocabulary]; empty where not asked for or there is no head
};

/// The oracle: the same pass by plain loops in float64, sharing no code with the fast one; slow on purpose.
/// Rotary angles, their cosines and sines are float32, as the reference implementation has them. The pool
/// only spreads outputs and heads. The sequence must be one that check_batch (forward/run.hpp) accepts; keys
/// and values of its own are used as they are, no position is added to them. Where a layer has no W_V and a
/// later one is asked for: Error(bad_input).
[[nodiscard]] ReferencePass run_reference(const Model& model, const Sequence& sequence,
                                          std::size_t last_layer, bool logits, Pool& pool);

}  // namespace attnctl

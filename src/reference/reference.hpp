#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl {

/// The results of one sequence's float64 pass.
struct ReferencePass {
  struct Layer {
    std::vector<OwnedMatrix<double>> pattern;  // [heads][n, m]
    std::vector<OwnedMatrix<double>> scores;   // [heads][n, m], masked = -inf
    std::vector<OwnedMatrix<double>> z;        // [heads][n, v]; empty without W_V
    OwnedMatrix<double> output;                // [n, d_out]
  };
  std::vector<Layer> layers;   // [0, last_layer]
  OwnedMatrix<double> logits;  // [n, vocabulary]; empty if not requested or if the model has no head
};

/// Runs the model in float64, written as the formulas read: the independent check of run_forward, and slow.
/// The sequence must be one that check_batch (forward/run.hpp) accepts. Keys and values that it brings get no
/// positions. Throws Error(bad_input) if a layer without W_V comes before the last one.
[[nodiscard]] ReferencePass run_reference(const Model& model, const Sequence& sequence,
                                          std::size_t last_layer, bool logits, Pool& pool);

}  // namespace attnctl

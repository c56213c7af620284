#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"
#include "causal/interventions.hpp"
#include "causal/recording.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// Integrated gradients of attention patterns (Hao et al. 2021).
namespace attnctl::causal {

/// What each weight of a pattern adds to a prediction.
struct PatternParts {
  model::HeadId head;
  OwnedMatrix<float> pattern;  // [n, m]
  /// [n, m], weight (i, j) times the mean of d ln p / d weight (i, j) while the patterns of all heads of this
  /// layer grow from 0 to their values. The parts of all heads of a layer add up to ln p minus its value with
  /// patterns of 0, except for the error of the mean over steps.
  OwnedMatrix<float> parts;
};

/// Returns the parts of the patterns of the selected heads. p is the probability of the target of the only
/// query of `scored`; `pass` is the unchanged pass of `batch`, which has one sequence. In step k the patterns
/// of a layer are multiplied by (k + 1/2) / `steps`; the layers before it do not change, those after it are
/// computed again. Throws the errors of loss_gradients().
[[nodiscard]] std::vector<PatternParts> integrate_patterns(const model::Model& model,
                                                           const input::Batch& batch, const CausalPass& pass,
                                                           const ScoredQueries& scored,
                                                           const forward::Selection& selection,
                                                           std::size_t steps, forward::RunContext& context);

}  // namespace attnctl::causal

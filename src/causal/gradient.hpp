#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "causal/interventions.hpp"
#include "causal/recording.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// Gradients of the predictions with respect to the z of every head, by one backward pass.
namespace attnctl::causal {

/// The gradient of one number of a sequence with respect to the z of all heads.
struct HeadGradients {
  std::vector<OwnedMatrix<float>> d_z;  // [layers][n, heads * v], as RecordedSequence::z
};

/// Receives the gradient d_z [n, heads * v] of a sequence in `layer` if the heads and the MLP of the later
/// layer `dropped` pass no derivative on: only the residual stream around them does.
using TakeWithout = std::function<void(std::size_t dropped, std::size_t layer, std::size_t sequence,
                                       MatrixView<const float> d_z)>;

/// Where a backward pass ends, and which additional gradients it computes.
struct BackwardPath {
  std::size_t first_layer = 0;  // the pass ends in this layer; HeadGradients of earlier layers are empty
  /// If set, called for each layer, from the last to the first, with all later layers dropped one by one in
  /// ascending order. Dropping an earlier layer changes nothing in `layer`; its own gradient is then 0.
  TakeWithout without_layer = {};
};

/// Returns, for each sequence, the gradient of its loss: the mean over its scored queries of -ln p(target).
/// The gradient of a sequence without scored queries is 0. `recorded` has the sequences of the same batch,
/// from CausalPass or record(). The choice of experts is constant, as in PyTorch. Layers are computed again
/// from the recorded streams, one at a time. Throws Error(bad_input) if the model has no output head, if a
/// layer has no W_V, or if a sequence has separate keys or values.
[[nodiscard]] std::vector<HeadGradients> loss_gradients(const model::Model& model, const input::Batch& batch,
                                                        std::span<const ScoredQueries> scored,
                                                        const std::vector<RecordedSequence>& recorded,
                                                        forward::RunContext& context,
                                                        const BackwardPath& path = {});

/// As loss_gradients(), for the logit of answer.right minus that of answer.wrong at ScoredQueries::answer.
/// The gradient of a sequence without this query is 0.
[[nodiscard]] std::vector<HeadGradients> difference_gradients(
    const model::Model& model, const input::Batch& batch, std::span<const ScoredQueries> scored,
    const AnswerTokens& answer, const std::vector<RecordedSequence>& recorded, forward::RunContext& context,
    const BackwardPath& path = {});

/// The first-order effect of an intervention on the number whose gradient is given.
struct LinearEstimate {
  /// Sum over heads and positions of (replacement - z) . gradient: the change of the number if it were linear
  /// (attribution patching: Nanda 2023; Syed et al. 2023). kUndefined if an MLP is replaced.
  double change = kUndefined;
  /// Sum over heads of |sum over positions of z . gradient| (importance: Michel et al. 2019).
  double importance = kUndefined;
};
[[nodiscard]] LinearEstimate estimate(const model::ModelConfig& config, const Intervention& intervention,
                                      const RecordedSequence& recorded, const HeadGradients& gradients);

}  // namespace attnctl::causal

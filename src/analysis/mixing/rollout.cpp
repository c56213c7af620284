#include "analysis/mixing/rollout.hpp"

#include <utility>

#include "analysis/weights/layer_fusion.hpp"
#include "linalg/gemm.hpp"

namespace attnctl {

/// The state of one sequence.
struct Rollout::State {
  State(std::size_t n, const ModelConfig& config, const RolloutOptions& options)
      : fusion(n, config, options.fusion,
               [this, residual = options.residual](OwnedMatrix<double>& fused) { fold(fused, residual); }),
        rolled(n, n) {
    for (std::size_t i = 0; i < n; ++i) rolled(i, i) = 1;
  }

  void fold(OwnedMatrix<double>& fused, double residual) {
    last_layer = fused;
    add_residual(fused, residual);
    OwnedMatrix<double> next(fused.rows(), fused.cols());
    gemm_nn(std::as_const(fused).view(), std::as_const(rolled).view(), next.view());
    rolled = std::move(next);
  }

  LayerFusion fusion;
  OwnedMatrix<double> rolled;      // rollout of the layers below
  OwnedMatrix<double> last_layer;  // fused heads of the last complete layer
};

Rollout::Rollout(RolloutOptions options) : options_(options) {}
Rollout::~Rollout() = default;

std::uint64_t Rollout::memory(const Model& /*model*/, const Batch& batch) const {
  constexpr std::uint64_t matrices = 4;  // fused, rolled, next rolled, last layer
  std::uint64_t bytes = 0;
  for (const Sequence& sequence : batch.sequences)
    bytes += matrices * sequence.queries() * sequence.queries() * sizeof(double);
  return bytes;
}

void Rollout::begin(const Model& model, const Batch& batch) {
  require_own_keys(batch, "rollout");
  states_.clear();
  for (const Sequence& sequence : batch.sequences) {
    states_.push_back(std::make_unique<State>(sequence.queries(), model.config(), options_));
  }
}

void Rollout::panel(const AttentionPanel& panel) {
  states_[panel.sequence]->fusion.add(panel);
}

std::vector<OwnedMatrix<double>> Rollout::finish() {
  std::vector<OwnedMatrix<double>> result;
  for (const auto& state : states_) {
    state->fusion.finish();
    result.push_back(std::move(state->rolled));
  }
  return result;
}

std::vector<OwnedMatrix<double>> Rollout::take_last_layer() {
  std::vector<OwnedMatrix<double>> result;
  for (const auto& state : states_) result.push_back(std::move(state->last_layer));
  return result;
}

}  // namespace attnctl

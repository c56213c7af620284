#include "analysis/mixing/rollout.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "linalg/gemm.hpp"

namespace attnctl {
namespace {

/// Rounds a weight to a multiple of 2^-40. Sums of up to 4096 such weights are exact in double in any order.
double rounded(float weight) {
  constexpr double shift = 6144;  // 1.5 * 2^12; the last bit of a double of this size is 2^-40
  return (static_cast<double>(weight) + shift) - shift;
}

constexpr std::size_t rows_of_lock = 64;

/// Returns the neutral element of the fusion.
double neutral(HeadFusion fusion) {
  return fusion == HeadFusion::min ? std::numeric_limits<double>::infinity() : 0.0;
}

}  // namespace

LayerFusion::LayerFusion(std::size_t n, const ModelConfig& config, HeadFusion fusion, Complete complete)
    : fusion_(fusion),
      complete_(std::move(complete)),
      fused_(n, n),
      row_locks_((n + rows_of_lock - 1) / rows_of_lock) {
  for (const LayerConfig& each : config.layers) heads_.push_back(each.attention.heads);
  std::fill(fused_.values().begin(), fused_.values().end(), neutral(fusion_));
}

void LayerFusion::enter(std::size_t panel_layer) {
  const std::lock_guard guard(layer_lock_);
  if (panel_layer == layer_) return;
  close();
  layer_ = panel_layer;
}

void LayerFusion::join(std::span<const float> weights, KeyRange keys, std::span<double> to) const {
  switch (fusion_) {
    case HeadFusion::mean:
      for (std::size_t j = keys.first; j < keys.last; ++j) to[j] += rounded(weights[j]);
      return;
    case HeadFusion::max:
      for (std::size_t j = keys.first; j < keys.last; ++j) to[j] = std::max(to[j], rounded(weights[j]));
      return;
    case HeadFusion::min:  // hidden keys count as 0
      for (std::size_t j = 0; j < to.size(); ++j) to[j] = std::min(to[j], rounded(weights[j]));
      return;
  }
}

void LayerFusion::add(const AttentionPanel& panel) {
  enter(panel.layer);
  for (std::size_t r = 0; r < panel.pattern.rows;) {
    const std::size_t group = (panel.first_query + r) / rows_of_lock;
    const std::lock_guard guard(row_locks_[group]);
    for (; r < panel.pattern.rows && (panel.first_query + r) / rows_of_lock == group; ++r) {
      join(panel.pattern.row(r), panel.keys(), fused_.view().row(panel.first_query + r));
    }
  }
}

void LayerFusion::close() {
  if (fusion_ == HeadFusion::mean) {
    for (double& value : fused_.values()) value /= static_cast<double>(heads_[layer_]);
  }
  complete_(fused_);
  std::fill(fused_.values().begin(), fused_.values().end(), neutral(fusion_));
}

void LayerFusion::finish() {
  close();
}

void add_residual(OwnedMatrix<double>& fused, double residual) {
  for (std::size_t i = 0; i < fused.rows(); ++i) {
    const auto row = fused.view().row(i);
    for (double& value : row) value *= 1 - residual;
    row[i] += residual;
    const double total = std::accumulate(row.begin(), row.end(), 0.0);
    if (total == 0) {
      row[i] = 1;
    } else {
      for (double& value : row) value /= total;
    }
  }
}

void require_own_keys(const Batch& batch, std::string_view analysis) {
  for (const Sequence& sequence : batch.sequences) {
    if (sequence.key_embeddings.rows() == 0) continue;
    fail(Status::bad_input,
         "input {}: {} needs queries and keys that are the same tokens, but the input has separate keys; "
         "leave {} out of --include",
         escaped(sequence.id), analysis, analysis);
  }
}

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

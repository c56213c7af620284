#include "analysis/mixing/rollout.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <span>
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

/// Combines the heads of each layer of one sequence from their panels. Heads of a layer can arrive in
/// parallel. A layer must be complete before the next one starts; the first panel of the next layer
/// completes it.
class LayerFusion {
 public:
  /// Receives the combined pattern [n, n] of each layer, lowest layer first.
  using Complete = std::function<void(OwnedMatrix<double>& fused)>;

  LayerFusion(std::size_t n, const ModelConfig& config, HeadFusion fusion, Complete complete);

  void add(const AttentionPanel& panel);
  /// Completes the layer.
  void close();

 private:
  void enter(std::size_t panel_layer);
  void join(std::span<const float> weights, KeyRange keys, std::span<double> to) const;

  HeadFusion fusion_;
  Complete complete_;
  OwnedMatrix<double> fused_;
  std::size_t layer_ = 0;
  std::vector<std::size_t> heads_;  // [layers]
  std::mutex layer_lock_;
  std::vector<std::mutex> row_locks_;
};

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

FusedLayers::FusedLayers(const RolloutOptions& options, std::string_view analysis)
    : options_(options), analysis_(analysis) {}
FusedLayers::~FusedLayers() = default;

void FusedLayers::begin(const Model& model, const Batch& batch) {
  require_own_keys(batch, analysis_);
  fusions_.clear();
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    fusions_.push_back(
        std::make_unique<LayerFusion>(batch.sequences[s].queries(), model.config(), options_.fusion,
                                      [this, s](OwnedMatrix<double>& fused) { add_layer(s, fused); }));
  }
}

void FusedLayers::panel(const AttentionPanel& panel) {
  fusions_[panel.sequence]->add(panel);
}

void FusedLayers::finish_layers() {
  for (const auto& fusion : fusions_) fusion->close();
}

std::uint64_t Rollout::memory(const Model& /*model*/, const Batch& batch) const {
  constexpr std::uint64_t kMatrices = 4;  // fused, rolled, next rolled, last layer
  std::uint64_t bytes = 0;
  for (const Sequence& sequence : batch.sequences)
    bytes += kMatrices * sequence.queries() * sequence.queries() * sizeof(double);
  return bytes;
}

void Rollout::begin(const Model& model, const Batch& batch) {
  FusedLayers::begin(model, batch);
  last_layer_.assign(batch.sequences.size(), {});
  rolled_.clear();
  for (const Sequence& sequence : batch.sequences) {
    OwnedMatrix<double>& identity = rolled_.emplace_back(sequence.queries(), sequence.queries());
    for (std::size_t i = 0; i < identity.rows(); ++i) identity(i, i) = 1;
  }
}

void Rollout::add_layer(std::size_t sequence, OwnedMatrix<double>& fused) {
  last_layer_[sequence] = fused;
  add_residual(fused, options_.residual);
  OwnedMatrix<double> next(fused.rows(), fused.cols());
  gemm_nn(std::as_const(fused).view(), std::as_const(rolled_[sequence]).view(), next.view());
  rolled_[sequence] = std::move(next);
}

std::vector<OwnedMatrix<double>> Rollout::finish() {
  finish_layers();
  return std::move(rolled_);
}

}  // namespace attnctl

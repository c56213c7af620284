#include "analysis/mixing/rollout.hpp"

#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "linalg/gemm.hpp"

namespace attnctl::analysis {

/// Rounds a weight to a multiple of 2^-40. Sums of up to 4096 such weights are exact in double in any order.
static double rounded(float weight) {
  constexpr double shift = 6144;  // 1.5 * 2^12: the lowest bit of a double of this size is 2^-40
  return (static_cast<double>(weight) + shift) - shift;
}

/// Returns the start value of F before the first head.
static double neutral(HeadFusion fusion) {
  return fusion == HeadFusion::min ? std::numeric_limits<double>::infinity() : 0.0;
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

void require_own_keys(const input::Batch& batch, std::string_view analysis) {
  for (const input::Sequence& sequence : batch.sequences) {
    if (sequence.key_embeddings.rows() == 0) continue;
    fail(Status::bad_input,
         "input {}: {} needs queries and keys that are the same tokens, but the input has separate keys; "
         "leave {} out of --include",
         escaped(sequence.id), analysis, analysis);
  }
}

std::uint64_t bytes_of_squares(const input::Batch& batch, std::uint64_t matrices) {
  std::uint64_t bytes = 0;
  for (const input::Sequence& sequence : batch.sequences)
    bytes += matrices * sequence.queries() * sequence.queries() * sizeof(double);
  return bytes;
}

void FusedLayers::begin(const model::Model& model, const input::Batch& batch) {
  require_own_keys(batch, analysis_);
  heads_.clear();
  for (const model::LayerConfig& layer : model.config().layers) heads_.push_back(layer.attention.heads);
  fusions_.clear();
  for (const input::Sequence& sequence : batch.sequences)
    fusions_.push_back(std::make_unique<Fusion>(sequence.queries(), neutral(options_.fusion)));
}

void FusedLayers::join(std::span<const float> weights, forward::KeyRange keys, std::span<double> to) const {
  switch (options_.fusion) {
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

void FusedLayers::panel(const forward::AttentionPanel& panel) {
  Fusion& fusion = *fusions_[panel.sequence];
  {
    const std::lock_guard guard(fusion.layer_lock);
    if (panel.layer != fusion.layer) close(panel.sequence);
    fusion.layer = panel.layer;
  }
  for (std::size_t r = 0; r < panel.pattern.rows;) {
    const std::size_t group = (panel.first_query + r) / kRowsOfLock;
    const std::lock_guard guard(fusion.row_locks[group]);
    for (; r < panel.pattern.rows && (panel.first_query + r) / kRowsOfLock == group; ++r)
      join(panel.pattern.row(r), panel.keys(), fusion.fused.view().row(panel.first_query + r));
  }
}

void FusedLayers::close(std::size_t sequence) {
  Fusion& fusion = *fusions_[sequence];
  if (options_.fusion == HeadFusion::mean) {
    for (double& value : fusion.fused.values()) value /= static_cast<double>(heads_[fusion.layer]);
  }
  add_layer(sequence, fusion.fused);
  std::ranges::fill(fusion.fused.values(), neutral(options_.fusion));
}

void Rollout::begin(const model::Model& model, const input::Batch& batch) {
  FusedLayers::begin(model, batch);
  last_layer_.assign(batch.sequences.size(), {});
  rolled_.clear();
  for (const input::Sequence& sequence : batch.sequences) rolled_.push_back(identity(sequence.queries()));
}

void Rollout::add_layer(std::size_t sequence, OwnedMatrix<double>& fused) {
  last_layer_[sequence] = fused;
  add_residual(fused, options_.residual);
  rolled_[sequence] = linalg::product(fused.view(), rolled_[sequence].view());
}

}  // namespace attnctl::analysis

#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

#include "analysis/mixing/rollout.hpp"
#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl {

/// Combines the heads of each layer of one sequence from their panels. Heads of a layer can arrive in
/// parallel. A layer must be complete before the next one starts; the first panel of the next layer
/// completes it.
class LayerFusion {
 public:
  /// Receives the combined pattern [n, n] of each layer, lowest layer first.
  using Complete = std::function<void(OwnedMatrix<double>& fused)>;

  LayerFusion(std::size_t n, const ModelConfig& config, HeadFusion fusion, Complete complete);

  void add(const AttentionPanel& panel);
  /// Completes the last layer.
  void finish();

 private:
  void enter(std::size_t panel_layer);
  void close();
  void join(std::span<const float> weights, KeyRange keys, std::span<double> to) const;

  HeadFusion fusion_;
  Complete complete_;
  OwnedMatrix<double> fused_;
  std::size_t layer_ = 0;
  std::vector<std::size_t> heads_;  // [layers]
  std::mutex layer_lock_;
  std::vector<std::mutex> row_locks_;
};

/// Replaces a combined pattern F by A' (see RolloutOptions).
void add_residual(OwnedMatrix<double>& fused, double residual);

/// Throws Error(bad_input) if queries and keys of an input are different tokens.
void require_own_keys(const Batch& batch, std::string_view analysis);

}  // namespace attnctl

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

/// Joins the heads of each layer of one sequence as their panels come. Heads of a layer come in parallel, a
/// layer only after the one below is complete; its first panel completes that one.
class LayerFusion {
 public:
  /// Takes the joined pattern [n, n] of each layer, lowest first.
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

/// A' of a joined pattern, in its place.
void add_residual(OwnedMatrix<double>& fused, double residual);

/// Throws Error(bad_input) where queries and keys of an input are not the same tokens.
void require_own_keys(const Batch& batch, std::string_view analysis);

}  // namespace attnctl

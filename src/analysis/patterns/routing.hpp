#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// The experts that process the tokens of one input in one layer.
struct LayerRouting {
  std::size_t input = 0;  // index in the batch
  std::size_t layer = 0;
  std::vector<ExpertRoute> tokens;  // [n]
};

/// Collects the routes of the selected layers with experts.
class Routing final : public Observer {
 public:
  [[nodiscard]] Needs needs() const override { return {.patterns = false, .routing = true}; }
  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& /*panel*/) override {}
  void routing(std::size_t sequence, std::size_t layer, std::span<const ExpertRoute> routes) override;

  /// Returns the routes sorted by input, then layer. Call once, after the pass.
  [[nodiscard]] std::vector<LayerRouting> finish();

 private:
  std::vector<LayerRouting> found_;
};

}  // namespace attnctl

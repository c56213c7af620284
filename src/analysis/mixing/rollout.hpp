#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"

namespace attnctl {

/// How the patterns of a layer's heads become one, element by element.
enum class HeadFusion { mean, max, min };

/// A' of a layer = (1 - residual) F + residual I, each row divided by its sum; F joins all heads of the
/// layer. A row without any weight keeps to itself.
struct RolloutOptions {
  HeadFusion fusion = HeadFusion::mean;
  double residual = 0.5;  // 0..1
};

/// Attention rollout (Abnar and Zuidema 2020): R_l = A'_l R_(l-1), R_(-1) = I. Row i of the result says how
/// much of each input token reaches position i of the last layer when residual and feed-forward parts are
/// taken as token-wise; rows sum to 1.
///
/// The pass must show every head of every layer (Selection::all), whatever else was selected. Sums over heads
/// are exact, so threads cannot change a bit. Keeps three [n, n] matrices a sequence in double.
class Rollout final : public Observer {
 public:
  explicit Rollout(RolloutOptions options = {});
  ~Rollout() override;

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  /// Throws Error(bad_input) where queries and keys are not the same tokens.
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// [n, n] of each sequence. Once, after the pass.
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish();
  /// The joined heads F of the last layer alone, [n, n] of each sequence. Once, after finish().
  [[nodiscard]] std::vector<OwnedMatrix<double>> take_last_layer();

 private:
  struct State;
  RolloutOptions options_;
  std::vector<std::unique_ptr<State>> states_;  // [sequences]
};

}  // namespace attnctl

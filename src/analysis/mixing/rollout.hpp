#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"

namespace attnctl {

/// Element-wise function that combines the patterns of a layer's heads into one.
enum class HeadFusion { mean, max, min };

/// Options of rollout. A' of a layer = (1 - residual) F + residual I, with each row divided by its sum. F
/// combines all heads of the layer. A row with no weight at all becomes a row of the identity.
struct RolloutOptions {
  HeadFusion fusion = HeadFusion::mean;
  double residual = 0.5;  // 0..1
};

/// Attention rollout (Abnar and Zuidema 2020): R_l = A'_l R_(l-1), R_(-1) = I. Row i of the result says how
/// much of each input token reaches position i of the last layer, if residual and feed-forward parts act on
/// each token separately. Rows sum to 1.
///
/// The pass must show every head of every layer (Selection::all), even if the user selected fewer. Sums over
/// heads are exact, so results do not depend on the number of threads. Keeps three [n, n] matrices per
/// sequence in double.
class Rollout final : public Observer {
 public:
  explicit Rollout(RolloutOptions options = {});
  ~Rollout() override;

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  /// Throws Error(bad_input) if queries and keys are different tokens.
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// Returns the rollout [n, n] of each sequence. Call once, after the pass.
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish();
  /// Returns the combined heads F of the last layer, [n, n] for each sequence. Call once, after finish().
  [[nodiscard]] std::vector<OwnedMatrix<double>> take_last_layer();

 private:
  struct State;
  RolloutOptions options_;
  std::vector<std::unique_ptr<State>> states_;  // [sequences]
};

}  // namespace attnctl

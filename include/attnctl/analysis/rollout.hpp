#pragma once

#include "attnctl/base/matrix_view.hpp"
#include "attnctl/forward/observer.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace attnctl {

/// Attention rollout (Abnar and Zuidema 2020): of each layer the mean pattern A of ALL its heads,
/// A' = (A + I) with each row divided by its sum (which is 0.5 A + 0.5 I; a fully masked row keeps to
/// itself), and R_l = A'_l R_(l-1), R_(-1) = I. Row i of the result says how much of each input token reaches
/// position i of the last layer when residual and feed-forward parts are taken as token-wise; rows sum to 1.
///
/// The pass must show every head of every layer (Selection::all), whatever else was selected. Sums over heads
/// are exact, so threads cannot change a bit. Keeps two [n, n] matrices a sequence in double.
class Rollout final : public Observer {
 public:
  Rollout();
  ~Rollout() override;

  /// Throws Error(bad_input) where queries and keys are not the same tokens.
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// [n, n] of each sequence. Once, after the pass.
  [[nodiscard]] std::vector<OwnedMatrix<double>> finish();

 private:
  struct State;
  std::vector<std::unique_ptr<State>> states_;  // [sequences]
};

}  // namespace attnctl

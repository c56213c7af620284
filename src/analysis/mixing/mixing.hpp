#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// How much a layer's attention block takes into a position from the others, and how much it keeps there.
struct PositionMixing {
  double mix = 0;   // |what comes from all other positions|
  double keep = 0;  // |what stays: the stream itself and the heads' weight on it|

  /// mix / (mix + keep), 0..1; nullopt where both are 0 or one is not finite.
  [[nodiscard]] std::optional<double> ratio() const;
};

struct LayerMixing {
  std::size_t input = 0;  // in the batch
  std::size_t layer = 0;
  std::vector<PositionMixing> positions;  // [n]
};

/// Mixing ratio (Kobayashi et al. 2021). With f_h(x) = (x W_V^h + b_V^h) W_O^h:
///   mix_i = sum_h sum_(j != i) alpha_ij f_h(x_j),   keep_i = x_i + sum_h alpha_ii f_h(x_i)
/// where x_i is added from the residual stream, and f_h reads what the layer's attention reads. Where the
/// norm comes after the sum (BERT) both go through it: g(u) = (u - mean u) / s gain, s the deviation of the
/// row that is really normalised. Where norms come before (GPT-2, LLaMA) nothing follows the sum. b_O and the
/// norm's bias come from no position and are in neither.
///
/// The pass must show every head of the selected layers. Layers without W_V have no record.
class Mixing final : public Observer {
 public:
  explicit Mixing(const Selection& selection);
  ~Mixing() override;

  [[nodiscard]] Needs needs() const override {
    return {.values = true, .z = true, .output = true, .stream = true};
  }
  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  /// Throws Error(bad_input) where queries and keys are not the same tokens, where the output of a selected
  /// layer is of another width than the stream, or is normalised or scaled before it is added to it.
  void begin(const Model& model, const Batch& batch) override;
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void panel(const AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;

  /// By input, then layer. Once, after the pass.
  [[nodiscard]] std::vector<LayerMixing> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attnctl

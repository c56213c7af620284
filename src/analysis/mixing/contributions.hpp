#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// What a head adds to the output of its layer for one input: its write w = z W_O^h [n, d], beside the whole
/// write t = sum of all heads of the layer. b_O belongs to no head and is in neither. Without W_O the output
/// is the heads side by side, and W_O counts as the identity. Undefined (nullopt) where a divisor is 0 or a
/// value is not finite.
struct HeadContribution {
  std::size_t input = 0;  // in the batch
  HeadId head;
  std::uint64_t rows = 0;             // positions that see a key
  std::optional<double> norm;         // mean |w_i| over those
  std::optional<double> norm_share;   // sum |w_i| over that of all heads: sums to 1
  std::optional<double> cosine;       // <w, t> / (|w| |t|), over all positions together
  std::optional<double> share;        // <w, t> / |t|^2: sums to 1 over the heads, any one may be negative
  std::optional<double> explained;    // 1 - |t - w|^2 / |t|^2, at most 1
  std::optional<double> whole_norm;   // mean |t_i|
  std::optional<double> stream_norm;  // mean |x_i| of the residual stream that the output is added to
};

/// Computes contributions of the selected heads. The pass must show every head of the layers that are
/// selected. Layers without W_V have none. Sums are in float64, of z in float32.
class Contributions final : public Observer {
 public:
  explicit Contributions(const Selection& selection);
  ~Contributions() override;

  [[nodiscard]] Needs needs() const override {
    return {.patterns = false, .z = true, .output = true, .stream = true};
  }
  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void panel(const AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;

  /// By input, then in the order of the selection. Once, after the pass.
  [[nodiscard]] std::vector<HeadContribution> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attnctl

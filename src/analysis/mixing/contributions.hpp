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

/// The contribution of a head to the output of its layer for one input. Compares its write w = z W_O^h [n, d]
/// with the whole write t, the sum over all heads of the layer. b_O belongs to no head and is in neither of
/// them. Without W_O, the output is the concatenation of the heads and W_O counts as the identity. A value
/// is undefined (nullopt) if a divisor is 0 or a term is not finite.
struct HeadContribution {
  std::size_t input = 0;  // index in the batch
  HeadId head;
  std::uint64_t rows = 0;             // number of positions that see a key
  std::optional<double> norm;         // mean |w_i| over those positions
  std::optional<double> norm_share;   // sum |w_i| / sum over all heads; sums to 1 over the heads
  std::optional<double> cosine;       // <w, t> / (|w| |t|), over all positions together
  std::optional<double> share;        // <w, t> / |t|^2; sums to 1 over the heads, can be negative
  std::optional<double> explained;    // 1 - |t - w|^2 / |t|^2, at most 1
  std::optional<double> whole_norm;   // mean |t_i|
  std::optional<double> stream_norm;  // mean |x_i| of the residual stream before the output is added
};

/// Computes the contributions of the selected heads. The pass must show every head of the selected layers.
/// Layers without W_V have no contributions. Sums of the float32 z are in float64.
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

  /// Returns the contributions sorted by input, then in selection order. Call once, after the pass.
  [[nodiscard]] std::vector<HeadContribution> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attnctl

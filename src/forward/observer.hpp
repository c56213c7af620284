#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl {

/// Keys [first, last).
struct KeyRange {
  std::size_t first = 0, last = 0;
  [[nodiscard]] std::size_t size() const { return last - first; }
};

/// Consecutive rows of one head's attention of one sequence. All views are const and valid during the call.
struct AttentionPanel {
  std::size_t sequence = 0;  // in the batch
  std::size_t layer = 0;
  std::size_t head = 0;
  std::size_t kv_head = 0;
  std::size_t first_query = 0;
  MatrixView<const float> pattern;  // [rows, m]; may be empty where no observer needs patterns
  MatrixView<const float> scores;   // [rows, m] as given to softmax, masked = -inf; empty unless needed
  KeyRange visible = {0, static_cast<std::size_t>(-1)};  // outside, all weights are 0 and all scores -inf
  MatrixView<const float> q;  // [rows, k] as it enters the product (after rotary), before the scale
  MatrixView<const float> k;  // [m, k]
  MatrixView<const float> v;  // [m, v]; empty unless values are computed
  MatrixView<const float> z;  // [rows, v]; empty unless z is needed or the pass goes on
  std::span<const std::uint8_t> fully_masked;  // [rows], 1: no key was visible, the row is zeros

  /// `visible`, ending at the last key at most.
  [[nodiscard]] KeyRange keys() const {
    const std::size_t last = visible.last < pattern.cols ? visible.last : pattern.cols;
    return {visible.first < last ? visible.first : last, last};
  }
};

/// The experts that a token goes through, the weightiest first (of equal weights the lower number).
struct ExpertRoute {
  std::vector<std::size_t> experts;  // [per_token]
  std::vector<float> weights;        // [per_token]
};

/// What an observer wants computed.
struct Needs {
  bool patterns = true;  // false: a kind of attention that does without makes none
  bool scores = false;
  bool values = false;  // v
  bool z = false;
  bool output = false;   // attention output of every selected layer
  bool stream = false;   // what that output is added to
  bool routing = false;  // of selected layers with experts
  bool logits = false;
  bool end = false;  // the last selected layer to its end, where it has one, though nothing reads it

  Needs& operator|=(const Needs& other);
};

/// Watches a forward pass. Different heads come in parallel from several threads; the panels of one head come
/// in order (by sequence, then rows), so state kept per head needs no lock.
class Observer {
 public:
  virtual ~Observer() = default;
  [[nodiscard]] virtual Needs needs() const { return {}; }
  /// Bytes that it keeps at most over such a pass, what grows with inputs, heads or layers; what a model
  /// keeps for it (attention()) too. Asked before begin().
  [[nodiscard]] virtual std::uint64_t memory(const Model& /*model*/, const Batch& /*batch*/) const {
    return 0;
  }
  virtual void begin(const Model& model, const Batch& batch) = 0;
  /// The residual stream [n, d_model] that the output of a selected layer is added to: where norms come
  /// before the sublayers, not yet normalised. From one thread, before the panels of the layer.
  virtual void stream(std::size_t /*sequence*/, std::size_t /*layer*/, MatrixView<const float> /*values*/) {}
  virtual void panel(const AttentionPanel& panel) = 0;
  /// The layer's attention output [n, d_out], output bias included, before the residual. From one thread.
  virtual void output(std::size_t /*sequence*/, std::size_t /*layer*/, MatrixView<const float> /*values*/) {}
  /// The route of each token of a selected layer with experts [n]. From one thread, after the panels.
  virtual void routing(std::size_t /*sequence*/, std::size_t /*layer*/,
                       std::span<const ExpertRoute> /*routes*/) {}
  /// Logits of queries first_query.. [rows, vocabulary]. From one thread, in order.
  virtual void logits(std::size_t /*sequence*/, std::size_t /*first_query*/,
                      MatrixView<const float> /*values*/) {}
};

}  // namespace attnctl

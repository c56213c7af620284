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

/// Consecutive rows of one head's attention in one sequence. The views are valid during the call.
struct AttentionPanel {
  std::size_t sequence = 0;  // in the batch
  std::size_t layer = 0;
  std::size_t head = 0;
  std::size_t kv_head = 0;
  std::size_t first_query = 0;
  MatrixView<const float> pattern;  // [rows, m]; may be empty if no observer needs patterns
  MatrixView<const float> scores;   // [rows, m] as given to softmax, masked = -inf; empty unless needed
  KeyRange visible = {0, static_cast<std::size_t>(-1)};  // outside all weights are 0, all scores -inf
  MatrixView<const float> q;  // [rows, k] as it enters the product (after rotary), before the scale
  MatrixView<const float> k;  // [m, k]
  MatrixView<const float> v;  // [m, v]; empty unless values are computed
  MatrixView<const float> z;  // [rows, v]; empty unless an observer or the next layer needs z
  std::span<const std::uint8_t> fully_masked;  // [rows], 1: no key was visible, the row is zeros

  /// Returns `visible`, clipped to the existing keys.
  [[nodiscard]] KeyRange keys() const {
    const std::size_t last = visible.last < pattern.cols ? visible.last : pattern.cols;
    return {visible.first < last ? visible.first : last, last};
  }
};

/// The experts of a token by descending weight; equal weights by number.
struct ExpertRoute {
  std::vector<std::size_t> experts;  // [per_token]
  std::vector<float> weights;        // [per_token]
};

/// The results that an observer needs.
struct Needs {
  bool patterns = true;  // false: linear and strided attention compute none
  bool scores = false;
  bool values = false;  // v
  bool z = false;
  bool output = false;   // attention output of every selected layer
  bool stream = false;   // the residual stream that this output is added to
  bool routing = false;  // expert routes of selected layers
  bool logits = false;
  bool end = false;  // run the last selected layer to its end, even if nothing reads the result

  Needs& operator|=(const Needs& other);
};

/// Receives the results of a forward pass. Different heads come in parallel from several threads. The panels
/// of one head come in order (by sequence, then rows), so state per head needs no lock.
class Observer {
 public:
  virtual ~Observer() = default;
  [[nodiscard]] virtual Needs needs() const { return {}; }
  /// Returns an upper bound of the bytes that it keeps during a pass, including the weights that the model
  /// keeps for it (Model::attention). Called before begin().
  [[nodiscard]] virtual std::uint64_t memory(const Model& /*model*/, const Batch& /*batch*/) const {
    return 0;
  }
  virtual void begin(const Model& model, const Batch& batch) = 0;
  /// Receives the residual stream [n, d_model] that the output of a selected layer is added to; under
  /// pre-norm it is not yet normalised. Called from one thread, before the panels of the layer.
  virtual void stream(std::size_t /*sequence*/, std::size_t /*layer*/, MatrixView<const float> /*values*/) {}
  virtual void panel(const AttentionPanel& panel) = 0;
  /// Receives the layer's attention output [n, d_out] with its bias, before the residual sum. Called from one
  /// thread.
  virtual void output(std::size_t /*sequence*/, std::size_t /*layer*/, MatrixView<const float> /*values*/) {}
  /// Receives the route of each token [n] in a selected layer with experts. Called from one thread, after the
  /// panels.
  virtual void routing(std::size_t /*sequence*/, std::size_t /*layer*/,
                       std::span<const ExpertRoute> /*routes*/) {}
  /// Receives the logits of queries from first_query on [rows, vocabulary]. Called from one thread, in order.
  virtual void logits(std::size_t /*sequence*/, std::size_t /*first_query*/,
                      MatrixView<const float> /*values*/) {}
};

}  // namespace attnctl

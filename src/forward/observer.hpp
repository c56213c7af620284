#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// A range of keys [first, last).
struct KeyRange {
  std::size_t first = 0, last = 0;
  [[nodiscard]] std::size_t size() const { return last - first; }
};

/// Consecutive query rows of one head's attention in one sequence. The views are valid only during the call
/// of Observer::panel.
struct AttentionPanel {
  std::size_t sequence = 0;  // index in the batch
  std::size_t layer = 0;
  std::size_t head = 0;
  std::size_t kv_head = 0;
  std::size_t first_query = 0;
  /// [rows, m] for m keys. Empty in linear and strided attention if no observer needs patterns or scores.
  MatrixView<const float> pattern;
  /// [rows, m], the input of softmax, -inf for masked keys; for linear attention, the logarithm of phi(q)
  /// phi(k)^T. Empty unless an observer needs scores.
  MatrixView<const float> scores;
  /// For keys outside of this range, all weights are 0 and all scores -inf.
  KeyRange visible = {0, static_cast<std::size_t>(-1)};
  MatrixView<const float> q;  // [rows, k], after rotary positions, before the scale
  MatrixView<const float> k;  // [m, k], after rotary positions
  MatrixView<const float> v;  // [m, v]; empty unless values are computed
  MatrixView<const float> z;  // [rows, v]; empty unless z is computed
  /// [rows], 1 if the query sees no key; then its weights are all 0.
  std::span<const std::uint8_t> fully_masked;

  /// Returns `visible`, limited to the keys of `pattern`; an empty range if `pattern` is empty.
  [[nodiscard]] KeyRange keys() const {
    const std::size_t last = visible.last < pattern.cols ? visible.last : pattern.cols;
    return {visible.first < last ? visible.first : last, last};
  }
};

/// The experts that the router chooses for a token, by descending score; experts of equal score by ascending
/// index.
struct ExpertRoute {
  std::vector<std::size_t> experts;  // [per_token]
  std::vector<float> weights;        // [per_token]
};

/// What an observer needs from the forward pass: members of AttentionPanel (patterns, scores, values, z),
/// calls of functions of Observer (output, stream, routing, logits), or the complete last layer (end).
struct Needs {
  bool patterns = true;  // linear and strided attention compute patterns only if this or `scores` is true
  bool scores = false;
  bool values = false;  // v
  bool z = false;
  bool output = false;   // the attention output of selected layers
  bool stream = false;   // the residual stream before the attention of selected layers
  bool routing = false;  // the expert routes of selected layers
  bool logits = false;
  /// Also compute the MLP of the last selected layer, although no observer needs it. Has no effect on a layer
  /// whose attention output cannot be added to the residual stream.
  bool end = false;

  Needs& operator|=(const Needs& other);
};

/// Receives the results of a forward pass. Panels of different heads may be passed from several threads at
/// the same time. The panels of one head are never passed at the same time; their order is that of sequences
/// and rows. Therefore data that an observer keeps per head need no lock.
class Observer {
 public:
  virtual ~Observer() = default;
  [[nodiscard]] virtual Needs needs() const { return {}; }
  /// Returns an upper bound of the bytes that the observer holds during a pass, including the weights that it
  /// loads with Model::attention. May be called before begin().
  [[nodiscard]] virtual std::uint64_t memory(const model::Model& /*model*/,
                                             const input::Batch& /*batch*/) const {
    return 0;
  }
  virtual void begin(const model::Model& /*model*/, const input::Batch& /*batch*/) {}
  /// Receives the residual stream [n, d_model] before the attention output of a selected layer is added. In
  /// models with pre-norm these values are not normalised. Called from one thread, before the layer's panels
  /// of the sequence.
  virtual void stream(std::size_t /*sequence*/, std::size_t /*layer*/, MatrixView<const float> /*values*/) {}
  virtual void panel(const AttentionPanel& panel) = 0;
  /// Receives the attention output [n, d_out] of a selected layer that has values, with the output bias and
  /// before a norm of the output. Called from one thread, after the layer's panels of the sequence.
  virtual void output(std::size_t /*sequence*/, std::size_t /*layer*/, MatrixView<const float> /*values*/) {}
  /// Receives the experts of each token [n] in a selected layer that has experts. Called from one thread,
  /// after the layer's panels of the sequence.
  virtual void routing(std::size_t /*sequence*/, std::size_t /*layer*/,
                       std::span<const ExpertRoute> /*routes*/) {}
  /// Receives logits [rows, vocabulary] of consecutive queries, starting at `first_query`. Called from one
  /// thread, in the order of sequences and queries.
  virtual void logits(std::size_t /*sequence*/, std::size_t /*first_query*/,
                      MatrixView<const float> /*values*/) {}
};

}  // namespace attnctl::forward

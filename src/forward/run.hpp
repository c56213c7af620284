#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "base/progress.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// The forward pass: what observers receive, what a pass computes, and how much memory it needs.
namespace attnctl::forward {

/// A range of keys [first, last).
struct KeyRange {
  std::size_t first = 0, last = 0;
  [[nodiscard]] std::size_t size() const { return last - first; }
  /// Returns the keys of the range that are less than `end`.
  [[nodiscard]] KeyRange before(std::size_t end) const {
    const std::size_t cut = std::min(last, end);
    return {std::min(first, cut), cut};
  }
};

/// Consecutive query rows of one head's attention in one sequence. The views are valid only during the call
/// of Observer::panel.
struct AttentionPanel {
  std::size_t sequence = 0;  // index in the batch
  std::size_t layer = 0;
  std::size_t head = 0;
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
  [[nodiscard]] KeyRange keys() const { return visible.before(pattern.cols); }
};

/// The experts that the router chooses for a token, by descending score, then by ascending index.
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

  void operator|=(const Needs& other) {
    for (bool Needs::*const need :
         {&Needs::patterns, &Needs::scores, &Needs::values, &Needs::z, &Needs::output, &Needs::stream,
          &Needs::routing, &Needs::logits, &Needs::end})
      this->*need = this->*need || other.*need;
  }
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
  /// Receives the residual stream [m, d_model] after the last layer of the encoder, before its norm. Called
  /// if `stream` is needed, from one thread, before encoded().
  virtual void encoder_stream(std::size_t /*sequence*/, MatrixView<const float> /*values*/) {}
  /// Receives the output of the encoder [m, d_model], with its norm, that the cross-attention reads. Called
  /// if `stream` is needed, from one thread, before the first layer of the decoder.
  virtual void encoded(std::size_t /*sequence*/, MatrixView<const float> /*values*/) {}
  /// Receives the attention output [n, d_out] of a selected layer that has values, with the output bias and
  /// before a norm of the output. Called from one thread, after the layer's panels of the sequence.
  virtual void output(std::size_t /*sequence*/, std::size_t /*layer*/, MatrixView<const float> /*values*/) {}
  /// Receives the experts of each token [n] in a selected layer that has experts. Called from one thread,
  /// after the layer's panels of the sequence.
  virtual void routing(std::size_t /*sequence*/, std::size_t /*layer*/,
                       std::span<const ExpertRoute> /*routes*/) {}
  /// Receives the residual stream [n, d_model] after the last layer, before the final norm. Called if
  /// `stream` and `logits` are needed, from one thread, before the logits of the sequence.
  virtual void final_stream(std::size_t /*sequence*/, MatrixView<const float> /*values*/) {}
  /// Receives logits [rows, vocabulary] of consecutive queries, starting at `first_query`. Called from one
  /// thread, in the order of sequences and queries.
  virtual void logits(std::size_t /*sequence*/, std::size_t /*first_query*/,
                      MatrixView<const float> /*values*/) {}
};

/// Passes the events of a forward pass on to several observers.
class ObserverGroup : public Observer {
 public:
  /// The observers must outlive this object.
  explicit ObserverGroup(std::vector<Observer*> observers) : observers_(std::move(observers)) {}

  [[nodiscard]] Needs needs() const override;
  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  void begin(const model::Model& model, const input::Batch& batch) override {
    for (Observer* const observer : observers_) observer->begin(model, batch);
  }
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override {
    for (Observer* const observer : observers_) {
      if (observer->needs().stream) observer->stream(sequence, layer, values);
    }
  }
  void panel(const AttentionPanel& panel) override {
    for (Observer* const observer : observers_) observer->panel(panel);
  }
  void encoder_stream(std::size_t sequence, MatrixView<const float> values) override {
    for (Observer* const observer : observers_) {
      if (observer->needs().stream) observer->encoder_stream(sequence, values);
    }
  }
  void encoded(std::size_t sequence, MatrixView<const float> values) override {
    for (Observer* const observer : observers_) {
      if (observer->needs().stream) observer->encoded(sequence, values);
    }
  }
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override {
    for (Observer* const observer : observers_) {
      if (observer->needs().output) observer->output(sequence, layer, values);
    }
  }
  void routing(std::size_t sequence, std::size_t layer, std::span<const ExpertRoute> routes) override {
    for (Observer* const observer : observers_) {
      if (observer->needs().routing) observer->routing(sequence, layer, routes);
    }
  }
  void final_stream(std::size_t sequence, MatrixView<const float> values) override {
    for (Observer* const observer : observers_) {
      if (observer->needs().stream && observer->needs().logits) observer->final_stream(sequence, values);
    }
  }
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override {
    for (Observer* const observer : observers_) {
      if (observer->needs().logits) observer->logits(sequence, first_query, values);
    }
  }

 private:
  std::vector<Observer*> observers_;
};

/// Threads, warnings, progress output and sizes of the parts that are computed at once.
struct RunContext {
  Pool& pool;
  Warnings& warnings;
  Progress* progress = nullptr;
  std::size_t panel_rows = 128;    // largest number of query rows in a panel
  std::size_t packed_rows = 1024;  // largest number of query rows of a Block of several sequences
  /// If 0, the weights of all layers stay in memory. Otherwise the weights of a layer are released after use,
  /// and Blocks with up to this number of rows in total (at least one Block) are computed in a layer before
  /// the next layer is read. The results do not depend on this value.
  std::size_t streamed_rows = 0;
  /// Ascending indices of sequences that begin a new Block even if the Block before has room. The results of
  /// sequences in different Blocks do not depend on each other, down to the rounding.
  std::span<const std::size_t> block_starts = {};
};

/// The heads that are passed to observers.
struct Selection {
  std::vector<model::HeadId> heads;  // ascending, without duplicates

  [[nodiscard]] static Selection all(const model::ModelConfig& config);
  [[nodiscard]] std::vector<std::size_t> layers() const;  // layers with selected heads, ascending
};

/// Changes values during a pass. All functions are called from one thread, for all layers and sequences.
class Editor {
 public:
  virtual ~Editor() = default;
  /// May change the z of all heads of a layer, side by side [n, heads * v], before the output projection.
  virtual void heads(std::size_t /*sequence*/, std::size_t /*layer*/, MatrixView<float> /*z*/) {}
  /// May change the term [rows, d_model] that the MLP or the experts of a layer add to the residual stream,
  /// for the queries from `first_query` on, before the residual multiplier.
  virtual void mlp(std::size_t /*sequence*/, std::size_t /*layer*/, std::size_t /*first_query*/,
                   MatrixView<float> /*term*/) {}
};

/// The values of a sequence with which a pass begins in a layer.
struct SequenceStart {
  MatrixView<const float> stream;  // [n, d_model], as Observer::stream receives it in this layer
  /// [n, heads * v], the z of all heads of this layer, side by side; no data: the pass computes the heads.
  MatrixView<const float> z;
  MatrixView<const float> memory;  // [m, d_model], as Observer::encoded receives it; only in a decoder
  /// [m, d_model], what the keys and the values of this layer read; no data: `stream`, or `memory` in
  /// cross-attention.
  MatrixView<const float> keys = {}, values = {};
};

/// A pass that begins in a layer, computes only some logits, or has an editor. All members are borrowed.
struct PartialPass {
  Editor* editor = nullptr;
  std::size_t layer = 0;                      // where the pass begins if `start` is not empty
  std::span<const SequenceStart> start = {};  // [sequences]; empty: the pass begins with the embeddings
  /// [sequences], the queries whose logits are computed, ascending; empty: all queries.
  std::span<const std::vector<std::size_t>> logit_queries = {};
};

/// Runs all sequences through the model in float32 and passes the panels of each selected head to all
/// observers. Stops after the last selected layer, or after the logits if an observer needs them. Throws the
/// errors of check_batch, which it calls first, of make_plan, require_targets and Model::layer, and the
/// exceptions of the observers. May add the warnings fully_masked_row, non_finite_pattern, non_finite_score
/// and no_output_head.
void run_forward(const model::Model& model, const input::Batch& batch, const Selection& selection,
                 std::span<Observer* const> observers, RunContext& context, const PartialPass& part = {});

/// Checks whether the model can process the batch. Throws Error(bad_input) if not, for example for ids
/// outside the vocabulary, too many tokens, and embeddings or masks of the wrong shape. Accepts a missing
/// target, which only require_targets() checks.
void check_batch(const model::Model& model, const input::Batch& batch);

/// Throws Error(bad_input) if this layer belongs to the decoder and a sequence of the batch has no target.
void require_targets(const model::ModelConfig& config, const input::Batch& batch, std::size_t layer);

/// The parts of one layer that a pass computes, and those that it passes to observers.
struct LayerPlan {
  std::vector<std::uint8_t> shown;     // [heads], 1 if the head is passed to observers
  std::vector<std::uint8_t> computed;  // [heads], 1 if the head is computed
  bool patterns = false;               // observers need the patterns
  bool scores = false;
  bool values = false;
  bool z = false;
  bool output = false;        // the attention output is computed
  bool shows_output = false;  // the attention output is passed to observers
  bool shows_stream = false;  // the residual stream is passed to observers
  bool routing = false;       // the expert routes of tokens are passed to observers
  /// Compute the residual sum and the MLP, because later layers, logits, routing or Needs::end need them.
  bool onward = false;
};

/// The results of a pass that must be computed, because an observer or a later layer needs them.
struct PassPlan {
  std::vector<LayerPlan> layers;  // up to the last layer that is needed
  bool logits = false;
};

/// Makes the plan of a pass. Throws Error(bad_input) if later layers, logits or routing need the attention
/// output of a layer that has no values (W_V) or whose output has another width than the model. `model` is
/// the model's name in error messages.
[[nodiscard]] PassPlan make_plan(std::string_view model, const model::ModelConfig& config,
                                 const Selection& selection, const Needs& needs);

/// Estimated upper bounds, in bytes, of the memory that a forward pass needs, without its observers.
struct PassFootprint {
  std::uint64_t resident_weights = 0;  // of all layers that are computed
  std::uint64_t streamed_weights = 0;  // of the largest layer
  std::uint64_t other_weights = 0;     // embeddings that are looked up; the output head if it is used
  std::uint64_t activations = 0;       // buffers of the largest Block in one layer; rotary tables; logits
  std::uint64_t workers = 0;           // panels and work buffers
  std::uint64_t row = 0;               // bytes per row in the buffers that are separate for each Block
  std::size_t block_rows = 0;          // largest number of query rows or of key rows of a Block

  /// Returns the total bytes if all weights stay in memory.
  [[nodiscard]] std::uint64_t resident() const;
  /// Returns the total bytes with RunContext::streamed_rows = `rows`.
  [[nodiscard]] std::uint64_t streamed(std::size_t rows) const;
  /// Returns the largest value of RunContext::streamed_rows whose total fits into `bytes`; 0 if not even the
  /// largest Block fits.
  [[nodiscard]] std::size_t streamed_rows(std::uint64_t bytes) const;
};

/// Estimates the memory of a pass from the configuration and the lengths of the sequences. Does not read the
/// weights. Throws the errors of make_plan and require_targets. Does not check the inputs. The last two
/// parameters are members of RunContext.
[[nodiscard]] PassFootprint pass_footprint(const model::Model& model, const input::Batch& batch,
                                           const Selection& selection, const Needs& needs,
                                           std::size_t threads, std::size_t panel_rows = 128,
                                           std::size_t packed_rows = 1024);

}  // namespace attnctl::forward

#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// The values of a pass that later passes begin with, or that replace the values of other passes.
namespace attnctl::causal {

/// The values of one sequence. In encoder-decoder models, the rows of a layer of the decoder belong to the
/// target.
template <typename Value>
struct RecordedValues {
  std::vector<OwnedMatrix<Value>> streams;  // [layers][n, d_model], before the attention output is added
  std::vector<OwnedMatrix<Value>> z;        // [layers][n, heads * v], the z of all heads, side by side
  std::vector<OwnedMatrix<Value>> mlp;      // [layers][n, d_model], what the MLP adds; empty if not recorded
  OwnedMatrix<Value>
      encoder_stream;               // [m, d_model], the input of the encoder's norm; empty without a decoder
  OwnedMatrix<Value> memory;        // [m, d_model], the output of the encoder; empty without a decoder
  OwnedMatrix<Value> final_stream;  // [n, d_model], the input of the final norm
};
using RecordedSequence = RecordedValues<float>;

/// Records the sequences of a batch. Give it to a pass as an observer and as the editor.
class Recorder final : public forward::Observer, public forward::Editor {
 public:
  /// `mlps`: also record what the MLPs add.
  explicit Recorder(bool mlps) : mlps_(mlps) {}

  [[nodiscard]] forward::Needs needs() const override {
    return {.patterns = false, .stream = true, .logits = true};
  }
  void begin(const model::Model& model, const input::Batch& batch) override;
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void panel(const forward::AttentionPanel& /*panel*/) override {}
  void encoder_stream(std::size_t sequence, MatrixView<const float> values) override;
  void encoded(std::size_t sequence, MatrixView<const float> values) override;
  void final_stream(std::size_t sequence, MatrixView<const float> values) override;
  void heads(std::size_t sequence, std::size_t layer, MatrixView<float> z) override;
  void mlp(std::size_t sequence, std::size_t layer, std::size_t first_query, MatrixView<float> term) override;

  [[nodiscard]] std::vector<RecordedSequence>& sequences() { return sequences_; }

 private:
  bool mlps_;
  std::vector<RecordedSequence> sequences_;
};

/// Runs the model on a batch up to the last layer, and records its sequences.
[[nodiscard]] std::vector<RecordedSequence> record(const model::Model& model, const input::Batch& batch,
                                                   bool mlps, forward::RunContext& context);

/// Copies the elements of a view.
[[nodiscard]] OwnedMatrix<float> copy_of(MatrixView<const float> values);

}  // namespace attnctl::causal

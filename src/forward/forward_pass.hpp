#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "forward/attention/attention.hpp"
#include "forward/attention/positions.hpp"
#include "forward/block.hpp"
#include "forward/layers/dense.hpp"
#include "forward/layers/mlp.hpp"
#include "forward/layers/output_head.hpp"
#include "forward/plan.hpp"
#include "forward/run.hpp"

namespace attnctl::forward {

/// The input of a forward pass.
struct PassInputs {
  const Model& model;
  const Batch& batch;
  const Plan& plan;
  std::span<Observer* const> observers;
  RunContext& context;
};

/// Takes blocks through the layers of the plan. One object serves all blocks and keeps its memory; buffers
/// that are needed at different times are shared.
class ForwardPass {
 public:
  explicit ForwardPass(const PassInputs& inputs);

  /// Computes each layer for all blocks of the group before the next layer.
  void run(std::span<const Block> group);
  [[nodiscard]] const RowWarnings& warnings() const { return warnings_; }

 private:
  struct Projections;

  /// What a block keeps from layer to layer.
  struct BlockState {
    const Block* inputs = nullptr;
    Block decoder, cross;            // the same sequences in the decoder, once it is reached
    MatrixView<float> x;             // the residual stream: of the inputs, then of the targets
    MatrixView<const float> memory;  // the encoder's output
    Buffer input_rows, target_rows;
    Convolution convolution;

    [[nodiscard]] const Block& block(Component component) const;
  };

  void enter_decoder(BlockState& state);
  void run_layer(BlockState& state, std::size_t index);
  void release(std::size_t index) const;
  Projections project(const BlockState& state, std::size_t index, MatrixView<const float> stream);
  void norm_heads(const AttentionConfig& config, const AttentionWeights& weights,
                  const Projections& projections);
  void rotate_heads(const Block& block, const AttentionConfig& config, const Projections& projections);
  void attend_heads(const Block& block, std::size_t index, const Projections& projections);
  MatrixView<float> project_output(const LayerWeights& weights, MatrixView<float> z);
  void compute_logits(const Block& block, MatrixView<const float> x);
  template <typename Notify>
  void notify(bool Needs::*need, const Block& block, const Notify& call) const;

  PassInputs inputs_;
  Pool& pool_;
  RotaryTables rotary_;
  OutputHead head_;
  MlpBuffers mlp_;
  DistanceTable distances_;
  std::vector<BlockState> states_;
  Buffer normed_, q_, k_, v_;  // z reuses normed_, and the output q_
  struct {
    Buffer query, key, value, output;
  } inner_;                           // x A of factorised projections
  std::vector<PanelBuffers> panels_;  // one per worker
  RowWarnings warnings_;
};

}  // namespace attnctl::forward

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "forward/attention/attention.hpp"
#include "forward/attention/head.hpp"
#include "forward/block.hpp"
#include "forward/buffer.hpp"
#include "forward/layers/convolution.hpp"
#include "forward/layers/mlp.hpp"
#include "forward/plan.hpp"
#include "forward/position/position.hpp"
#include "forward/position/position_table.hpp"
#include "forward/run.hpp"

namespace attnctl::forward {

/// What every block of a pass is given.
struct PassInputs {
  const Model& model;
  const Batch& batch;
  const Plan& plan;
  std::span<Observer* const> observers;
  RunContext& context;
};

/// Rows of patterns of which a warning is due, over the whole pass.
struct PassReport {
  struct Finding {
    std::uint64_t count = 0;
    std::size_t sequence = 0, query = 0;  // the first
    HeadId head;

    void add(const RowCount& rows, HeadId of_head);
  };
  Finding fully_masked, non_finite, infinite_score;
};

/// Takes blocks through the layers of the plan. One object serves all blocks, so that memory is taken once;
/// what only one layer of one block needs shares its memory with what is not needed any more.
class BlockPass {
 public:
  explicit BlockPass(const PassInputs& inputs);

  /// Each layer is computed for all of these blocks before the next one.
  void run(std::span<const Block> together);
  [[nodiscard]] const PassReport& report() const { return report_; }

 private:
  struct Projections;

  /// What a block carries from layer to layer.
  struct Carried {
    const Block* inputs = nullptr;
    Block own, cross;                // of the decoder, once it is reached
    MatrixView<float> x;             // of the inputs, then of the targets
    MatrixView<const float> memory;  // the encoder's output
    Buffer input_rows, target_rows;
    Convolution convolution;

    [[nodiscard]] const Block& block(Component component) const;
  };

  void enter_decoder(Carried& carried);
  void layer(Carried& carried, std::size_t index);
  void release(std::size_t index) const;
  Projections project(const Carried& carried, std::size_t index, MatrixView<const float> stream);
  void norm_heads(const AttentionConfig& config, const AttentionWeights& weights,
                  const Projections& projections);
  void turn(const Block& block, const AttentionConfig& config, const Projections& projections);
  void attend_heads(const Block& block, std::size_t index, const Projections& projections);
  MatrixView<float> project_output(const LayerWeights& weights, MatrixView<float> z);
  void show_stream(const Block& block, std::size_t index, MatrixView<const float> x);
  void show_output(const Block& block, std::size_t index, MatrixView<const float> output);
  void show_routing(const Block& block, std::size_t index, std::span<const ExpertRoute> routes);
  void show_logits(const Block& block, MatrixView<const float> x);

  PassInputs inputs_;
  Pool& pool_;
  RotaryTables rotary_;
  OutputHead head_;
  MlpBuffers mlp_;
  PositionTable position_table_;
  std::vector<Carried> carried_;
  Buffer normed_, q_, k_, v_;  // z takes the place of the normed stream, the output that of the queries
  struct {
    Buffer query, key, value, output;
  } narrow_;                          // x A of factorised projections
  std::vector<PanelBuffers> panels_;  // one a worker
  PassReport report_;
};

}  // namespace attnctl::forward

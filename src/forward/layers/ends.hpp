#pragma once

#include <cstddef>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/block.hpp"
#include "forward/layers/dense.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// The two ends of a model: the embeddings and the output head.
namespace attnctl::forward {

/// Returns the width of the embeddings that a sequence may have instead of ids.
[[nodiscard]] std::size_t embedding_width(const ModelConfig& config);

/// Writes the input of the first layer, x [block.rows, d_model]: embeddings, token types and positions, then
/// norm and projection. In the decoder these are those of the targets.
void embed(Pool& pool, const Model& model, const Batch& batch, const Block& block, MatrixView<float> x);

/// Returns the number of rows of logits that are computed at a time.
[[nodiscard]] std::size_t logits_rows(std::size_t vocabulary);

/// The final norm and the output head: computes logits, a bounded number of rows at a time.
class OutputHead {
 public:
  OutputHead(Pool& pool, const Model& model) : pool_(pool), model_(model) {}

  /// Returns the largest number of rows for one call of logits().
  [[nodiscard]] std::size_t rows_at_once() const { return logits_rows(model_.head(&pool_)->decoder.out()); }
  /// Returns the logits [rows, vocabulary] of x [rows, d_model], valid until the next call.
  [[nodiscard]] MatrixView<const float> logits(MatrixView<const float> x);

 private:
  Pool& pool_;
  const Model& model_;
  Buffer normed_, projected_, transformed_, logits_;
};

}  // namespace attnctl::forward

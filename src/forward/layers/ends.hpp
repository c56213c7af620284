#pragma once

#include <cstddef>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/block.hpp"
#include "forward/layers/dense.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// The embeddings before the first layer and the output head after the last one.
namespace attnctl::forward {

/// Returns the required width of the embeddings that a sequence may have instead of token ids.
[[nodiscard]] std::size_t embedding_width(const model::ModelConfig& config);

/// Writes the input of the first layer, x [block.rows, d_model]: the sum of token, token type and position
/// embeddings, normalised and projected. If the Block belongs to the decoder, these are the embeddings of the
/// targets.
void embed(Pool& pool, const model::Model& model, const input::Batch& batch, const Block& block,
           MatrixView<float> x);

/// Returns the number of rows for which logits are computed at once.
[[nodiscard]] std::size_t logits_rows(std::size_t vocabulary);

/// The final norm and the output head. The number of logit rows in memory is limited.
class OutputHead {
 public:
  OutputHead(Pool& pool, const model::Model& model) : pool_(pool), model_(model) {}

  /// Returns the largest number of rows for one call of logits().
  [[nodiscard]] std::size_t rows_at_once() const { return logits_rows(model_.head(&pool_)->decoder.out()); }
  /// Returns the logits [rows, vocabulary] of the residual stream x [rows, d_model]. Valid until the next
  /// call.
  [[nodiscard]] MatrixView<const float> logits(MatrixView<const float> x);

 private:
  Pool& pool_;
  const model::Model& model_;
  Buffer normed_, projected_, transformed_, logits_;
};

}  // namespace attnctl::forward

#pragma once

#include <cstddef>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/block.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// Width of the embeddings that a sequence may bring in place of token embeddings.
[[nodiscard]] std::size_t embedding_width(const ModelConfig& config);

/// The stream that enters the first layer of the block's stack, x [block.rows, d_model]: token (or given)
/// embeddings, token types and positions added, norm, projection.
void embed(Pool& pool, const Model& model, const Batch& batch, const Block& block, MatrixView<float> x);

}  // namespace attnctl::forward

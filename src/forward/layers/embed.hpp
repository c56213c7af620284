#pragma once

#include <cstddef>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/block.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// Returns the width of the embeddings that a sequence may have instead of ids.
[[nodiscard]] std::size_t embedding_width(const ModelConfig& config);

/// Writes the input of the first layer, x [block.rows, d_model]: embeddings, token types and positions, then
/// norm and projection. In the decoder these are those of the targets.
void embed(Pool& pool, const Model& model, const Batch& batch, const Block& block, MatrixView<float> x);

}  // namespace attnctl::forward

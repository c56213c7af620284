#pragma once

#include <utility>

#include "base/pool.hpp"
#include "input/batch.hpp"
#include "linalg/matrix.hpp"
#include "model/model.hpp"

namespace attnctl::reference {

using linalg::Matrix;

/// The embedding of a stack of layers: the model's, or that of its decoder.
struct Embedding {
  const EmbeddingConfig& config;
  Lease<EmbeddingWeights> lease;
  const EmbeddingWeights& weights;

  explicit Embedding(const Model& model) : Embedding(model.config().embedding, model.embedding()) {}
  Embedding(const EmbeddingConfig& stack_config, Lease<EmbeddingWeights> stack_lease)
      : config(stack_config), lease(std::move(stack_lease)), weights(*lease) {}
};

/// Returns the rows of the token table, or the embeddings or patches that the sequence has instead [n,
/// width].
[[nodiscard]] Matrix token_embeddings(const Embedding& embedding, const Sequence& sequence);
/// Returns the token embeddings plus positions and token types [n, width].
[[nodiscard]] Matrix embedding_sum(const Embedding& embedding, const Sequence& sequence);
/// Returns the input of the first layer [n, d]: the sum, normalised and projected.
[[nodiscard]] Matrix embed(const Embedding& embedding, const Sequence& sequence, Pool& pool);

}  // namespace attnctl::reference

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "reference/gradient.hpp"

namespace attnctl::reference {
namespace {

void check_differentiable(const model::Model& model, const input::Sequence& sequence) {
  if (!model.config().head.present)
    fail(Status::bad_input, "{}: gradients do not support models without an output head",
         escaped(model.name()));
  if (sequence.key_embeddings.rows() > 0 || sequence.value_embeddings.rows() > 0)
    fail(Status::bad_input, "input {}: gradients do not support separate keys or values",
         escaped(sequence.id));
}

/// Stores the token embeddings and their derivatives in `result`, given d_x of the first layer's input.
void embedding_gradient(const model::Model& model, const input::Sequence& sequence, Matrix d_x, Pool& pool,
                        LogitGradient& result) {
  const Embedding embedding{model.config().embedding, model.embedding()};
  const model::EmbeddingWeights& weights = *embedding.weights;
  clear_hidden(embedding.config, sequence, d_x);
  const Matrix sum = embedding_sum(embedding, sequence);
  const bool projected = weights.projection.present();
  if (projected && embedding.config.projected_first) {
    d_x = backward(embedding.config.norm, weights.norm, apply(weights.projection, sum, pool), d_x);
    d_x = backward(weights.projection, d_x, pool);
  } else {
    if (projected) d_x = backward(weights.projection, d_x, pool);
    d_x = backward(embedding.config.norm, weights.norm, sum, d_x);
  }
  result.d_embedding = linalg::to_owned(d_x);
  result.embedding = linalg::to_owned(token_embeddings(embedding, sequence));
}

}  // namespace

LogitGradient logit_gradient(const model::Model& model, const input::Sequence& sequence, std::size_t position,
                             std::optional<std::size_t> token, Pool& pool) {
  check_differentiable(model, sequence);
  if (model.config().decoder)
    fail(Status::bad_input, "{}: gradients do not support encoder-decoder models", escaped(model.name()));
  LogitGradient result;
  const auto d_logits = [&](const Matrix& logits) {
    const auto largest = std::max_element(logits.begin(), logits.end());
    result.token = token.value_or(static_cast<std::size_t>(largest - logits.begin()));
    result.logit = logits(0, result.token);
    Matrix d = xt::zeros_like(logits);
    d(0, result.token) = 1;
    return d;
  };
  PassGradient gradient = pass_gradient(model, sequence, {&position, 1}, d_logits, pool);
  for (std::size_t i = 0; i < gradient.d_z.size(); ++i) {
    std::vector<HeadLogitGradient>& heads = result.layers.emplace_back();
    for (std::size_t h = 0; h < gradient.d_z[i].size(); ++h)
      heads.push_back({std::move(gradient.pass.layers[i].z[h]), std::move(gradient.d_z[i][h])});
  }
  embedding_gradient(model, sequence, std::move(gradient.d_embedded), pool, result);
  return result;
}

LossGradient loss_gradient(const model::Model& model, const input::Sequence& sequence,
                           std::span<const std::size_t> queries, std::span<const std::int64_t> targets,
                           Pool& pool) {
  check_differentiable(model, sequence);
  LossGradient result;
  const auto count = static_cast<double>(queries.size());
  const auto d_logits = [&](const Matrix& logits) {
    Matrix d = xt::exp(logits - linalg::row_max(logits));
    d /= linalg::row_sum(d);
    for (std::size_t q = 0; q < queries.size(); ++q) {
      const auto target = static_cast<std::size_t>(targets[q]);
      result.loss -= std::log(d(q, target)) / count;
      d(q, target) -= 1;
    }
    return Matrix(d / count);
  };
  result.d_z = pass_gradient(model, sequence, queries, d_logits, pool).d_z;
  return result;
}

}  // namespace attnctl::reference

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl::reference {

/// The attention of one layer in the float64 pass.
struct ReferenceLayer {
  std::vector<OwnedMatrix<double>> pattern;  // [heads][n, m]
  std::vector<OwnedMatrix<double>> scores;   // [heads][n, m]; -inf for masked keys
  std::vector<OwnedMatrix<double>> z;        // [heads][n, v]; empty without W_V
  OwnedMatrix<double> values;                // [m, kv_heads * v], of all heads; empty without W_V
  OwnedMatrix<double> output;                // [n, d_out]; empty without W_V
  /// [n, d_model], what the attention output is added to; empty if neither a layer nor logits follow.
  OwnedMatrix<double> stream;
};

/// The results of the float64 pass of one sequence.
struct ReferencePass {
  std::vector<ReferenceLayer> layers;  // layers 0 to last_layer
  OwnedMatrix<double> logits;  // [n, vocabulary]; empty if not requested or if the model has no output head
};

/// Functions that change values of the float64 pass, like a forward::Editor. They may be empty.
struct ReferenceEdits {
  /// Receives the z of all heads of a layer, side by side [n, heads * v], before the output projection.
  std::function<void(std::size_t layer, MatrixView<double> z)> heads = {};
  /// Receives the term [n, d_model] that the MLP adds to the residual stream, before the residual multiplier.
  std::function<void(std::size_t layer, MatrixView<double> term)> mlp = {};
};

/// Runs the model in float64, as an independent and slow check of run_forward. Returns the attention of the
/// layers 0 to `last_layer` and, if `logits` is true, the logits. check_batch (forward/run.hpp) must accept
/// the sequence. No position vectors are added to separate keys and values of a sequence. Throws
/// Error(bad_input) if later layers or logits need the output of a layer without W_V. ReferenceLayer::z has
/// the values before `edits`, and ReferenceLayer::output those after them.
[[nodiscard]] ReferencePass run_reference(const model::Model& model, const input::Sequence& sequence,
                                          std::size_t last_layer, bool logits, Pool& pool,
                                          const ReferenceEdits& edits = {});

/// The z of one head, and the gradient of a logit with respect to it.
struct HeadLogitGradient {
  OwnedMatrix<double> z;    // [n, v]
  OwnedMatrix<double> d_z;  // [n, v]: d logit / d z
};

/// One logit and its gradients with respect to the z of each head and to the token embeddings, in float64.
struct LogitGradient {
  std::size_t token = 0;
  double logit = 0;
  std::vector<std::vector<HeadLogitGradient>> layers;  // [layers][heads]
  OwnedMatrix<double> embedding;    // [n, width]: token embeddings, without positions and token types
  OwnedMatrix<double> d_embedding;  // [n, width]: d logit / d embedding
};

/// Computes the gradient of the logit of a token at a position of the sequence, with respect to the z of each
/// head and to the token embeddings (after scaling and token dropout). `position` must be less than the
/// number of tokens, and `token` less than the size of the vocabulary. Without `token`, uses the token with
/// the largest logit. check_batch (forward/run.hpp) must accept the sequence. Throws Error(bad_input) if the
/// model has no output head or has a decoder after an encoder, if a layer has no W_V, or if the sequence has
/// separate keys or values.
[[nodiscard]] LogitGradient logit_gradient(const model::Model& model, const input::Sequence& sequence,
                                           std::size_t position, std::optional<std::size_t> token,
                                           Pool& pool);

/// A loss and its gradients, in float64.
struct LossGradient {
  double loss = 0;
  std::vector<std::vector<OwnedMatrix<double>>> d_z;  // [layers][heads][n, v]: d loss / d z
};

/// Computes the gradient of a loss with respect to the z of each head. The loss is the mean over `queries`
/// (of the target in encoder-decoder models; at least one) of -ln softmax(logits)[target], with one target
/// token per query. The choice of experts is constant. check_batch (forward/run.hpp) must accept the
/// sequence. Throws Error(bad_input) if the model has no output head, if a layer has no W_V, or if the
/// sequence has separate keys or values.
[[nodiscard]] LossGradient loss_gradient(const model::Model& model, const input::Sequence& sequence,
                                         std::span<const std::size_t> queries,
                                         std::span<const std::int64_t> targets, Pool& pool);

}  // namespace attnctl::reference

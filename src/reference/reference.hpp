#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl {

/// The results of one sequence's float64 pass.
struct ReferencePass {
  struct Layer {
    std::vector<OwnedMatrix<double>> pattern;  // [heads][n, m]
    std::vector<OwnedMatrix<double>> scores;   // [heads][n, m], masked = -inf
    std::vector<OwnedMatrix<double>> z;        // [heads][n, v]; empty without W_V
    OwnedMatrix<double> output;                // [n, d_out]
  };
  std::vector<Layer> layers;   // [0, last_layer]
  OwnedMatrix<double> logits;  // [n, vocabulary]; empty if not requested or if the model has no head
};

/// Runs the model in float64, written as the formulas read: the independent check of run_forward, and slow.
/// The sequence must be one that check_batch (forward/run.hpp) accepts. Keys and values that it brings get no
/// positions. Throws Error(bad_input) if a layer without W_V comes before the last one.
[[nodiscard]] ReferencePass run_reference(const Model& model, const Sequence& sequence,
                                          std::size_t last_layer, bool logits, Pool& pool);

/// One logit of a sequence.
struct LogitTarget {
  std::size_t position = 0;          // less than the sequence's length
  std::optional<std::size_t> token;  // less than the vocabulary's size; default: the largest logit
};

/// The gradient of one logit through the whole model, in float64.
struct LogitGradient {
  std::size_t token = 0;
  double logit = 0;
  struct Head {
    OwnedMatrix<double> z;    // [n, v]
    OwnedMatrix<double> d_z;  // [n, v]: d logit / d z
  };
  std::vector<std::vector<Head>> layers;  // [layers][heads]
  OwnedMatrix<double> embedding;          // [n, width]: rows of the token table, or the given embeddings
  OwnedMatrix<double> d_embedding;        // [n, width]: d logit / d embedding
};

/// Computes the gradient of a logit to the heads' z and to the token embeddings. The sequence must be one
/// that check_batch (forward/run.hpp) accepts. Throws Error(bad_input) if the model has no output head, has a
/// mechanism without a derivative here, or if a layer has no values, or the keys come from another sequence.
[[nodiscard]] LogitGradient logit_gradient(const Model& model, const Sequence& sequence, LogitTarget target,
                                           Pool& pool);

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl {

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

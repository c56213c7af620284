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
  std::size_t position = 0;          // below the sequence's length
  std::optional<std::size_t> token;  // below the vocabulary's size; nullopt: the largest logit there
};

/// The gradient of that logit in float64, back through the whole model, norms and MLPs included.
struct LogitGradient {
  std::size_t token = 0;
  double logit = 0;
  struct Head {
    OwnedMatrix<double> z;    // [n, v]
    OwnedMatrix<double> d_z;  // [n, v] d logit / d z
  };
  std::vector<std::vector<Head>> layers;  // [layers][heads]
  OwnedMatrix<double> embedding;          // [n, width] rows of the token table, or the given embeddings
  OwnedMatrix<double> d_embedding;        // [n, width]
};

/// The sequence must be one that check_batch (forward/run.hpp) accepts. Throws Error(bad_input) where the
/// model has no output head, a layer has no values, or keys are another sequence's.
[[nodiscard]] LogitGradient logit_gradient(const Model& model, const Sequence& sequence, LogitTarget target,
                                           Pool& pool);

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/warnings.hpp"
#include "model/model.hpp"

namespace attnctl {

/// A bare layer of attention: W_q, W_k, W_v and W_o.
struct RandomLayer {
  std::size_t d_model = 64;
  std::size_t heads = 4;  // divides d_model
  std::uint64_t seed = 0;
};

/// The layer with independent normal weights of deviation 1 / sqrt(d_model), so that an input of unit
/// variance has queries, keys and values of unit variance. `warnings` must outlive it.
[[nodiscard]] Model random_layer(const RandomLayer& sizes, Warnings& warnings);

}  // namespace attnctl

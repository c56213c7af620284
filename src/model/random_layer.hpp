#pragma once

#include <cstddef>
#include <cstdint>

#include "base/warnings.hpp"
#include "model/model.hpp"

namespace attnctl {

/// Sizes of a bare attention layer with W_q, W_k, W_v and W_o.
struct RandomLayer {
  std::size_t d_model = 64;
  std::size_t heads = 4;  // divides d_model
  std::uint64_t seed = 0;
};

/// Returns the layer with independent normal weights of standard deviation 1 / sqrt(d_model), so that an
/// input of unit variance gives queries, keys and values of unit variance. `warnings` must outlive it.
[[nodiscard]] Model random_layer(const RandomLayer& sizes, Warnings& warnings);

}  // namespace attnctl

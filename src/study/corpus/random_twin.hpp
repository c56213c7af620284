#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/warnings.hpp"
#include "model/model.hpp"

namespace attnctl {

/// Returns an untrained model of the same shape: the values of each matrix are shuffled within the matrix,
/// which keeps their distribution. Vectors (gains and biases) stay unchanged. The result depends only on the
/// model and the seed. The matrices are copies; `model` and `warnings` must outlive the result.
[[nodiscard]] Model random_twin(const Model& model, std::uint64_t seed, Warnings& warnings);
/// Returns `count` random twins, with the seeds `seed`, `seed` + 1, and so on.
[[nodiscard]] std::vector<Model> random_twins(const Model& model, std::size_t count, std::uint64_t seed,
                                              Warnings& warnings);

}  // namespace attnctl

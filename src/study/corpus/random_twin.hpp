#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/warnings.hpp"
#include "model/model.hpp"

namespace attnctl {

/// A model of the same shape that has learned nothing: the numbers of every matrix are put in random order,
/// each matrix by itself, so that their distribution stays what it was. Vectors (gains and biases) stay as
/// they are. The same for the same seed. Its matrices are copies, those of `model` apart; `model` and
/// `warnings` must outlive it.
[[nodiscard]] Model random_twin(const Model& model, std::uint64_t seed, Warnings& warnings);
/// So many of them, of the seeds from `seed` on.
[[nodiscard]] std::vector<Model> random_twins(const Model& model, std::size_t count, std::uint64_t seed,
                                              Warnings& warnings);

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/weights/circuit.hpp"
#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "model/model.hpp"
#include "results/results.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// Options of the diversity experiment: random heads and heads specialised to separate dimensions.
struct DiversityOptions {
  std::size_t d = 512;
  std::size_t heads = 8;
  std::size_t d_head = 64;
  double gain = 3;         // gain of a specialised head's own dimensions
  std::size_t draws = 16;  // at least 1
  std::uint64_t seed = 0;
};

/// Compares random and specialised heads. Random heads have W_Q and W_K with independent normal entries of
/// deviation sqrt(2 / (d + k)). Specialised heads come from a separate draw, with rows i d/h .. (i+1) d/h of
/// head i multiplied by the gain in both matrices. Each row has a head's effective rank of QK and the mean
/// of its similarity to the other heads and of its magnitude, over the draws. The summary has the mean and
/// deviation over the draws of each draw's means.
[[nodiscard]] ExperimentResult diversity_experiment(const DiversityOptions& options, Pool& pool);

/// Returns the weights of the experiment's first draw: W_q and W_k [heads, d, k].
[[nodiscard]] std::vector<Tensor> diversity_weights(const DiversityOptions& options, bool specialised,
                                                    Pool& pool);

/// Compares the heads of each layer of a trained model with random heads of the same shapes (d, width, heads
/// that share a slice). Each row has a layer's mean effective rank of a circuit and the mean similarities of
/// its heads, and the mean and deviation of the random heads over the draws. Uses only `draws` and `seed` of
/// the options. Throws Error(bad_input) if no layer has the circuit.
[[nodiscard]] ExperimentResult model_diversity_experiment(const Model& model, Circuit circuit,
                                                          const DiversityOptions& options, Pool& pool,
                                                          Warnings& warnings);

}  // namespace attnctl

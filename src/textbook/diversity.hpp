#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/weights/circuit.hpp"
#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "model/model.hpp"
#include "results/result.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// What random heads look like, and what heads do that each prefer dimensions of their own.
struct DiversityOptions {
  std::size_t d = 512;
  std::size_t heads = 8;
  std::size_t d_head = 64;
  double gain = 3;         // of the specialised heads' own dimensions
  std::size_t draws = 16;  // at least 1
  std::uint64_t seed = 0;
};

/// Random heads: W_Q and W_K of independent normal components of deviation sqrt(2 / (d + k)). Specialised
/// heads: a draw of their own in which rows i d/h .. (i+1) d/h of head i are multiplied by the gain in both.
/// Rows: a head's effective rank of QK, and the mean of its similarity to the others and of its magnitude,
/// over the draws; summary: the means of each draw, their mean and deviation over the draws.
[[nodiscard]] ExperimentResult diversity_experiment(const DiversityOptions& options, Pool& pool);

/// The weights of the first draw as the experiment has them: W_q and W_k [heads, d, k].
[[nodiscard]] std::vector<NamedArray> diversity_weights(const DiversityOptions& options, bool specialised,
                                                        Pool& pool);

/// A row a layer of a trained model: mean effective rank of a circuit and mean similarities of its heads,
/// beside random heads of the same shapes (d, width, heads that share a slice), mean and deviation over the
/// draws. Of the options only draws and seed count. Throws Error(bad_input) where no layer has the circuit.
[[nodiscard]] ExperimentResult model_diversity_experiment(const Model& model, Circuit circuit,
                                                          const DiversityOptions& options, Pool& pool,
                                                          Warnings& warnings);

}  // namespace attnctl

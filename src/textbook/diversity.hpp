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

namespace attnctl::textbook {

/// Options of the diversity experiment. It compares random heads with heads that are specialised to separate
/// input dimensions.
struct DiversityOptions {
  std::size_t d = 512;
  std::size_t heads = 8;
  std::size_t d_head = 64;
  double gain = 3;         // factor on the weights of a specialised head's own input dimensions
  std::size_t draws = 16;  // at least 1
  std::uint64_t seed = 0;
};

/// Compares random and specialised heads. Random heads have W_Q and W_K with independent normal entries of
/// deviation sqrt(2 / (d + d_head)). Specialised heads are drawn separately in the same way; then, with h
/// heads, rows i d/h to (i+1) d/h - 1 of W_Q and W_K of head i are multiplied by the gain. Each row of the
/// result belongs to one head and has, for random and for specialised heads, the means over the draws of
/// three measures: the effective rank of QK, the mean similarity to the other heads, and the mean magnitude
/// of this similarity. The summary takes the mean over the heads of each draw, then reports the mean and
/// standard deviation of these means over the draws.
[[nodiscard]] ExperimentResult diversity_experiment(const DiversityOptions& options, Pool& pool);

/// Returns W_Q and W_K of the first draw of the random or specialised heads, [heads, d, d_head] each.
[[nodiscard]] std::vector<Tensor> diversity_weights(const DiversityOptions& options, bool specialised,
                                                    Pool& pool);

/// Compares the heads of each layer of a trained model with random heads of the same shape. Each row of the
/// result belongs to one layer and has the mean effective rank of the circuit and the mean similarities of
/// the layer's heads, and the mean and standard deviation of the same numbers over the draws of random heads.
/// Uses only `draws` and `seed` of the options. Throws Error(bad_input) if `circuit` is ov and a layer has no
/// W_V or no W_O.
[[nodiscard]] ExperimentResult model_diversity_experiment(const model::Model& model,
                                                          analysis::Circuit circuit,
                                                          const DiversityOptions& options, Pool& pool,
                                                          Warnings& warnings);

}  // namespace attnctl::textbook

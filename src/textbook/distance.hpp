#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "analysis/patterns/distance_profile.hpp"
#include "base/matrix_view.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// An event at position 1 that matters at position n, and a head that was built to see it.
struct DistanceOptions {
  std::size_t n = 512;  // at least 2
  std::size_t d = 64;   // at least 2
  std::size_t d_k = 16;
  double strength = 16;    // the score of the event beside 0 of the others, noise apart
  double noise = 0.5;      // norm of each token's own part
  std::size_t window = 8;  // of the local attention it is compared with, the query counted; at least 2
  double decay = 0.9;      // of the recurrence it is compared with, in 0..1
  std::uint64_t seed = 0;
};

/// Tokens and weights in the row-vector convention. Token j is c + noise, the first one c + e + noise, with c
/// and e orthonormal: c marks a token that asks, e the event. W_Q = g c u^T and W_K = g e u^T with a unit
/// vector u, so that the score is strength (x_i c) (x_j e). W_V is normal with variance 1/d.
struct BuiltHead {
  OwnedMatrix<double> x;           // [n, d]
  OwnedMatrix<double> query, key;  // [d, k]
  OwnedMatrix<double> value;       // [d, k]
};
[[nodiscard]] BuiltHead build_head(const DistanceOptions& options);

/// For distances 1, 2, 4, ... and n - 1 between the event and the query (causal: distance + 1 visible keys):
/// the built head's weight on the event, the length of the change of z when the event's value changes by a
/// unit vector, and what other ways of mixing pass on over the same distance: even weights, the recurrence
/// h_t = decay h_(t-1) + (1 - decay) x_t in as many steps as the distance, and even attention to the last
/// `window` tokens in as few layers as reach the event.
[[nodiscard]] ExperimentResult distance_experiment(const DistanceOptions& options);

/// Rows of the profile of a trained model, a layer (its heads together) or a head and bin each: mean weight
/// and influence of a pair, their share of the whole, and what even weights would give.
[[nodiscard]] ExperimentResult distance_of_model(std::span<const HeadDistances> heads,
                                                 std::span<const DistanceBin> bins, bool by_head);

}  // namespace attnctl

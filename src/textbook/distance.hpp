#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "analysis/patterns/distance_profile.hpp"
#include "base/matrix_view.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// Options of the distance experiment: an event at position 1, and a head constructed to attend to it.
struct DistanceOptions {
  std::size_t n = 512;  // at least 2
  std::size_t d = 64;   // at least 2
  std::size_t d_k = 16;
  double strength = 16;    // score of the event without noise; other tokens have 0
  double noise = 0.5;      // norm of each token's noise
  std::size_t window = 8;  // window of the local attention baseline, query included; at least 2
  double decay = 0.9;      // decay of the recurrence baseline, 0..1
  std::uint64_t seed = 0;
};

/// Tokens and weights of the constructed head, in the row-vector convention. Token j is c + noise; the first
/// one is c + e + noise. c and e are orthonormal: c marks every token as a query, e marks the event. W_Q = g
/// c u^T and W_K = g e u^T with a unit vector u, so the score is strength (x_i c) (x_j e). W_V is normal
/// with variance 1/d.
struct BuiltHead {
  OwnedMatrix<double> x;           // [n, d]
  OwnedMatrix<double> query, key;  // [d, k]
  OwnedMatrix<double> value;       // [d, k]
};
[[nodiscard]] BuiltHead build_head(const DistanceOptions& options);

/// Measures attention over the distances 1, 2, 4, ... and n - 1 between event and query (causal: distance +
/// 1 visible keys). Reports the constructed head's weight on the event, and the norm of the change of z if
/// the event's value changes by a unit vector. The baselines over the same distance are uniform weights, the
/// recurrence h_t = decay h_(t-1) + (1 - decay) x_t with one step per token, and uniform attention to the
/// last `window` tokens with the smallest number of layers that reach the event.
[[nodiscard]] ExperimentResult distance_experiment(const DistanceOptions& options);

/// Returns the distance profile of a trained model, one row per bin and layer (all heads together) or per
/// bin and head. Reports the mean weight and influence of a pair, their share of the total, and the
/// uniform-attention baseline.
[[nodiscard]] ExperimentResult distance_of_model(std::span<const HeadDistances> heads,
                                                 std::span<const DistanceBin> bins, bool by_head);

}  // namespace attnctl

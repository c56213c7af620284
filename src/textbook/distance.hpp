#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "analysis/patterns/distance_profile.hpp"
#include "base/matrix_view.hpp"
#include "textbook/experiment.hpp"

namespace attnctl::textbook {

/// Options of the distance experiment. The input has an event at its first token, and a head is constructed
/// that attends to the event.
struct DistanceOptions {
  std::size_t n = 512;   // number of tokens; at least 2
  std::size_t d = 64;    // size of a token's vector; at least 2
  std::size_t d_k = 16;  // size of queries and keys
  double strength = 16;  // score of the event's key without noise; the other keys have the score 0
  double noise = 0.5;    // root mean square norm of a token's noise
  /// Tokens in the window of the local attention baseline, including the query; at least 2.
  std::size_t window = 8;
  double decay = 0.9;  // decay of the recurrence baseline, 0..1
  std::uint64_t seed = 0;
};

/// Tokens and weights of the constructed head, in the row-vector convention. c and e are orthonormal vectors:
/// c marks a query, e marks the event. The first token is c + e + noise, every other token is c + noise. W_Q
/// = g c u^T and W_K = g e u^T, where u is a unit vector and g a factor. g is chosen so that query i and key
/// j have the score strength * (x_i c) * (x_j e). The entries of W_V are normal with variance 1/d.
struct BuiltHead {
  OwnedMatrix<double> x;           // [n, d]
  OwnedMatrix<double> query, key;  // [d, k]
  OwnedMatrix<double> value;       // [d, k]
};
[[nodiscard]] BuiltHead build_head(const DistanceOptions& options);

/// Measures causal attention to the event from queries that are 1, 2, 4, ... and n - 1 tokens after the
/// event. Reports the weight of the constructed head on the event, and the norm of the change of z if the
/// event's value changes by a unit vector. There are three baselines: uniform weights; the recurrence h_t =
/// decay h_(t-1) + (1 - decay) x_t with one step per token; and layers of uniform attention to the last
/// `window` tokens, with the smallest number of layers that reaches the event.
[[nodiscard]] ExperimentResult distance_experiment(const DistanceOptions& options);

/// Returns the distance profile of a trained model, with one row per distance bin and head if `by_head` is
/// true, else one row per distance bin and layer (over all heads in `heads`). Reports for each bin: the
/// number of pairs of a query and a visible key; the mean weight and the mean influence (see
/// analysis::DistanceProfile) of a pair; the mean weight of a query on the whole bin; the share of the bin in
/// the total influence; and both weights for uniform attention. `heads` must be in ascending order.
[[nodiscard]] ExperimentResult distance_of_model(std::span<const analysis::HeadDistances> heads,
                                                 std::span<const analysis::DistanceBin> bins, bool by_head);

}  // namespace attnctl::textbook

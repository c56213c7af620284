#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/mixing/layer_writes.hpp"
#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// A range of distances |query - key|, first and last included.
struct DistanceBin {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// Returns the bins 0, 1, 2, 3-4, 5-8, 9-16, ... up to the bin that contains n - 1.
[[nodiscard]] std::vector<DistanceBin> distance_bins(std::size_t n);

/// Sums over the visible query-key pairs of one bin.
struct DistanceSums {
  std::uint64_t pairs = 0;
  double weight = 0;     // sum of a_ij
  double uniform = 0;    // sum of 1 / (visible keys of the row), the uniform-attention baseline
  double influence = 0;  // sum of a_ij |f(x_j)|

  void operator+=(const DistanceSums& other);
};

/// The sums of one head over all inputs.
struct HeadDistances {
  HeadId head;
  std::uint64_t rows = 0;          // number of query rows that see a key
  bool finite = true;              // false: some weight or value is not finite, so the sums are invalid
  bool has_values = false;         // false: no W_V, so influence is undefined
  std::vector<DistanceSums> bins;  // [distance_bins of the longest input]
};

/// Attention weight and influence by distance, updated with every panel. The influence of key j on query i
/// in a head is a_ij |f(x_j)| with f(x) = (x W_V + b_V) W_O^h, without b_O (Kobayashi et al. 2020). Without
/// W_O, f(x) is the value. A pair counts if the key is visible to the query.
class DistanceProfile final : public Observer {
 public:
  explicit DistanceProfile(const Selection& selection) : heads_(selection.heads) {}

  [[nodiscard]] Needs needs() const override { return {.scores = true, .values = true}; }
  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  /// Throws Error(bad_input) if queries and keys are different tokens.
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  [[nodiscard]] const std::vector<DistanceBin>& bins() const { return bins_; }
  /// Returns the sums in selection order.
  [[nodiscard]] std::vector<HeadDistances> finish() const;

 private:
  struct State {
    HeadDistances sums;
    ValueNorms norms;
    std::vector<double> value_norms;  // |f(x_j)| of the current sequence
  };
  void add_row(State& state, std::span<const float> pattern, std::span<const float> scores,
               std::size_t query) const;

  std::vector<HeadId> heads_;
  std::vector<DistanceBin> bins_;
  std::vector<std::uint8_t> bin_of_;  // [distance]
  std::vector<State> states_;         // [heads]
};

}  // namespace attnctl

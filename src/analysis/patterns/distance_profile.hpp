#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// Distances |query - key|: first..last, both of them in.
struct DistanceBin {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// 0, 1, 2, 3-4, 5-8, 9-16, ... up to the bin of n - 1.
[[nodiscard]] std::vector<DistanceBin> distance_bins(std::size_t n);

/// Sums over the visible pairs of a query and a key in one bin.
struct DistanceSums {
  std::uint64_t pairs = 0;
  double weight = 0;     // a_ij
  double uniform = 0;    // 1 / visible keys of the row: what even weights would give
  double influence = 0;  // a_ij |f(x_j)|

  void operator+=(const DistanceSums& other);
};

/// One head over all inputs.
struct HeadDistances {
  HeadId head;
  std::uint64_t rows = 0;          // query rows, fully masked ones left out
  bool finite = true;              // false: some weight or value is not, and the sums mean nothing
  bool has_values = false;         // false: no W_V, so that there is no influence
  std::vector<DistanceSums> bins;  // [distance_bins of the longest input]
};

/// Weight and influence by distance, panel by panel. The influence of key j on query i in a head is
/// a_ij |f(x_j)|, f(x) = (x W_V + b_V) W_O^h without b_O (Kobayashi et al. 2020); the norm is the value's own
/// where there is no W_O. A pair counts where the key is visible to the query.
class DistanceProfile final : public Observer {
 public:
  explicit DistanceProfile(const Selection& selection) : heads_(selection.heads) {}

  [[nodiscard]] Needs needs() const override { return {.scores = true, .values = true}; }
  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  /// Throws Error(bad_input) where queries and keys are not the same tokens.
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  [[nodiscard]] const std::vector<DistanceBin>& bins() const { return bins_; }
  /// In the order of the selection.
  [[nodiscard]] std::vector<HeadDistances> finish() const;

 private:
  struct State {
    HeadDistances sums;
    OwnedMatrix<double> output_gram;  // W_O^h W_O^h^T [v, v]; empty without W_O
    std::vector<double> value_norms;  // |f(x_j)| of the sequence that is shown
  };
  void begin_sequence(State& state, MatrixView<const float> values) const;
  void add_row(State& state, std::span<const float> pattern, std::span<const float> scores,
               std::size_t query) const;

  std::vector<HeadId> heads_;
  std::vector<DistanceBin> bins_;
  std::vector<std::uint8_t> bin_of_;  // [distance]
  std::vector<State> states_;         // [heads]
};

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/mixing/contributions.hpp"
#include "forward/run.hpp"

namespace attnctl::analysis {

/// A range of distances |query position - key position| in tokens, from `first` to `last`, both included.
struct DistanceBin {
  std::size_t first = 0, last = 0;
};

/// Returns the distance bins 0, 1, 2, 3-4, 5-8, 9-16 and so on, up to the bin that contains n - 1, the
/// largest distance in an input with n tokens. Empty if n is 0.
[[nodiscard]] std::vector<DistanceBin> distance_bins(std::size_t n);

/// Sums over the pairs (query i, visible key j) whose distance is in one bin. a_ij is the attention weight.
struct DistanceSums {
  std::uint64_t pairs = 0;
  double weight = 0;     // sum of a_ij
  double uniform = 0;    // sum of 1 / (number of visible keys of query i): the uniform-attention baseline
  double influence = 0;  // sum of a_ij |f(x_j)| (see DistanceProfile)

  void operator+=(const DistanceSums& other) {
    pairs += other.pairs;
    weight += other.weight;
    uniform += other.uniform;
    influence += other.influence;
  }
};

/// The sums of one head over all inputs.
struct HeadDistances {
  model::HeadId head;
  std::uint64_t rows = 0;          // number of queries with at least one visible key
  bool finite = true;              // false: a weight is not finite, or an |f(x_j)| is infinite
  bool has_values = false;         // false: no W_V, so influence is undefined
  std::vector<DistanceSums> bins;  // [distance_bins(length of the longest input or target)]
};

/// Computes the attention weight and the influence per distance bin, over visible keys. In head h, the
/// influence of key j on query i is a_ij |f(x_j)|, with f(x) = (x W_V^h + b_V^h) W_O^h (Kobayashi et al.
/// 2020). If the layer has no W_O, f(x) is the value itself. |f(x_j)| counts as 0 if it is NaN.
class DistanceProfile final : public forward::Observer {
 public:
  explicit DistanceProfile(const forward::Selection& selection) : heads_(selection.heads) {}

  [[nodiscard]] forward::Needs needs() const override { return {.scores = true, .values = true}; }
  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  /// Throws Error(bad_input) if an input has separate keys.
  void begin(const model::Model& model, const input::Batch& batch) override;
  void panel(const forward::AttentionPanel& panel) override;

  [[nodiscard]] const std::vector<DistanceBin>& bins() const { return bins_; }
  /// Returns the sums of each selected head, in selection order.
  [[nodiscard]] const std::vector<HeadDistances>& finish() const { return sums_; }

 private:
  void add_row(HeadDistances& sums, std::span<const double> norms, std::span<const float> pattern,
               std::span<const float> scores, std::size_t query) const;

  std::vector<model::HeadId> heads_;
  std::vector<DistanceBin> bins_;
  std::vector<std::uint8_t> bin_of_;  // [distance]: index of the bin
  std::vector<HeadDistances> sums_;   // [heads]
  std::vector<ValueNorms> norms_;     // [heads]: |f(x_j)| of each key j of the current sequence
};

}  // namespace attnctl::analysis

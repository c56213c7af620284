#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "forward/observer.hpp"
#include "reference/reference.hpp"

namespace attnctl::cli {

/// The largest difference of one array, in one layer (none: logits).
struct Comparison {
  std::string reference;  // "float64", or the path of a file
  std::string array;      // "pattern", "scores", "z", "output", "logits"
  std::optional<std::size_t> layer;
  double max_difference = 0;  // not finite: one side has a number where the other has none
  double largest =
      0;  // |value| of the reference, at least 1: what a tolerance is relative to (1 for patterns)
};

/// Compares a pass with a reference of the same sequences as it goes; what the reference leaves empty is left
/// out.
class CompareObserver final : public Observer {
 public:
  /// passes: one for each sequence of the batch; borrowed.
  explicit CompareObserver(const std::vector<ReferencePass>& passes) : passes_(passes) {}

  [[nodiscard]] Needs needs() const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override;

  /// Largest differences by array and layer; `reference` names them.
  [[nodiscard]] std::vector<Comparison> finish(const std::string& reference) const;

 private:
  using Key = std::pair<std::string, std::optional<std::size_t>>;
  void compare(const Key& key, MatrixView<const float> got, const OwnedMatrix<double>& want,
               std::size_t first_row);

  const std::vector<ReferencePass>& passes_;
  std::mutex mutex_;  // heads come in parallel
  std::map<Key, Comparison> comparisons_;
};

}  // namespace attnctl::cli

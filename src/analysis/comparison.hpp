#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "forward/run.hpp"
#include "reference/reference.hpp"

namespace attnctl::analysis {

/// The largest difference between a computed array and its reference, over all inputs and all heads of a
/// layer, or over the logits of all inputs.
struct Comparison {
  std::string reference;             // "float64", or the path of a file
  std::string array;                 // "pattern", "scores", "z", "output", "logits"
  std::optional<std::size_t> layer;  // nullopt for logits
  /// Largest |computed - reference|, where equal infinities count as 0. NaN or infinite if any other compared
  /// value is not finite.
  double max_difference = 0;
  double largest = 0;  // largest finite |value| of the reference, at least 1
};

/// Compares the arrays of a forward pass with those that a reference has, during the pass.
class CompareObserver final : public forward::Observer {
 public:
  /// `passes` has one item per sequence of the batch, and must outlive this object.
  explicit CompareObserver(const std::vector<reference::ReferencePass>& passes) : passes_(passes) {}

  [[nodiscard]] forward::Needs needs() const override;
  void begin(const model::Model& /*model*/, const input::Batch& batch) override {
    if (batch.sequences.size() != passes_.size())
      throw std::logic_error("a reference for each sequence is needed");
  }
  void panel(const forward::AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override {
    const auto& layers = passes_[sequence].layers;
    if (layer < layers.size() && layers[layer].output.rows() > 0)
      compare({"output", layer}, values, layers[layer].output, 0);
  }
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override {
    if (passes_[sequence].logits.rows() > 0)
      compare({"logits", std::nullopt}, values, passes_[sequence].logits, first_query);
  }

  [[nodiscard]] std::vector<Comparison> finish(const std::string& reference) const;

 private:
  using Key = std::pair<std::string, std::optional<std::size_t>>;
  void compare(const Key& key, MatrixView<const float> got, const OwnedMatrix<double>& want,
               std::size_t first_row);

  const std::vector<reference::ReferencePass>& passes_;
  std::mutex mutex_;  // heads are computed in parallel
  std::map<Key, Comparison> comparisons_;
};

}  // namespace attnctl::analysis

#pragma once

#include "attnctl/base/matrix_view.hpp"
#include "attnctl/input/batch.hpp"
#include "attnctl/model/config.hpp"

#include <cstddef>
#include <span>

namespace attnctl::forward {

/// A range of keys [first, last).
struct KeyRange {
  std::size_t first = 0, last = 0;
  [[nodiscard]] std::size_t size() const { return last - first; }
};

/// Which keys a query may attend to: the model's own causal mask and window, or what the sequence brings.
class Visibility {
 public:
  Visibility(const AttentionConfig& config, const Sequence& sequence, std::size_t head);

  /// The keys outside of which the model's own mask hides everything from query i.
  [[nodiscard]] KeyRange of_query(std::size_t i) const;
  /// The same for queries [first, first + count), at least 1, together.
  [[nodiscard]] KeyRange of_queries(std::size_t first, std::size_t count) const;

  /// Adds the sequence's score mask to the scores of keys [range.first, range.last) of query i, and
  /// overwrites those of hidden keys by -inf, whatever they were: a NaN of a hidden key does not leak.
  void mask(std::size_t i, KeyRange range, std::span<float> scores) const;

 private:
  const Sequence& sequence_;
  std::size_t keys_;
  std::size_t window_;  // keys that a query sees at most, itself the last; all where there is none
  bool causal_;
  std::size_t mask_head_;
};

}  // namespace attnctl::forward

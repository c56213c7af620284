#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// Keys first, first + step, ..., `count` of them.
struct KeySteps {
  std::size_t first = 0, step = 1, count = 0;
};

/// Which keys a query may attend to: the layer's kind of attention and its causal mask, or what the sequence
/// brings in place of that.
class Visibility {
 public:
  /// `sequence`: of the keys.
  Visibility(const AttentionConfig& config, const Sequence& sequence, std::size_t head);

  /// The keys outside of which the layer's own mask hides everything from query i. Of strided attention not
  /// all within are visible (strides_of).
  [[nodiscard]] KeyRange of_query(std::size_t i) const;
  /// The same for queries [first, first + count), at least 1, together.
  [[nodiscard]] KeyRange of_queries(std::size_t first, std::size_t count) const;

  /// The keys that strided attention shows query i, in no particular order, each once: those near it, and
  /// those before and behind that are multiples of the stride away.
  [[nodiscard]] std::array<KeySteps, 3> strides_of(std::size_t i) const;

  /// Adds the sequence's score mask to the scores of these keys of query i, and overwrites those of hidden
  /// keys by -inf, whatever they were: a NaN of a hidden key does not leak.
  void mask(std::size_t i, KeySteps keys, std::span<float> scores) const;
  void mask(std::size_t i, KeyRange range, std::span<float> scores) const {
    mask(i, {range.first, 1, range.size()}, scores);
  }

  /// False if the sequence hides the key from query i. The layer's own mask is not asked.
  [[nodiscard]] bool sees(std::size_t i, std::size_t key) const;

  /// False where the sequence hides the key from all queries.
  [[nodiscard]] bool shows(std::size_t key) const {
    return sequence_.key_visible.empty() || sequence_.key_visible[key] != 0;
  }

 private:
  const Sequence& sequence_;
  AttentionKind kind_;
  std::size_t keys_;
  bool causal_;
  std::size_t mask_head_;
};

}  // namespace attnctl::forward

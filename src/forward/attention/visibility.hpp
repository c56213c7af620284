#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// `count` keys at the positions first, first + step, first + 2 step, ...
struct KeySteps {
  std::size_t first = 0, step = 1, count = 0;
};

/// The keys that each query sees, by the kind of attention, the causal mask and the masks of the sequence.
class Visibility {
 public:
  /// `sequence` is the sequence of the keys.
  Visibility(const model::AttentionConfig& config, const input::Sequence& sequence, std::size_t head);

  /// Returns the smallest range with all keys that the layer's kind of attention and the causal mask allow
  /// for query i; for strided attention, a range that contains them (see strides_of). Ignores the masks of
  /// the sequence, except that a score mask replaces the causal mask.
  [[nodiscard]] KeyRange of_query(std::size_t i) const { return of_queries(i, 1); }
  /// Returns a range that contains the ranges of all queries [first, first + count). `count` is at least 1.
  [[nodiscard]] KeyRange of_queries(std::size_t first, std::size_t count) const;

  /// Returns the keys that strided attention allows for query i, each once: the keys near the query, then the
  /// keys before them and the keys after them whose distance from the query is a multiple of the stride.
  [[nodiscard]] std::array<KeySteps, 3> strides_of(std::size_t i) const;

  /// Adds the sequence's score mask to the scores of query i and these keys. Sets the scores of hidden keys
  /// to -inf, even if a score was NaN.
  void mask(std::size_t i, KeySteps keys, std::span<float> scores) const;

  /// Returns false if a mask of the sequence hides the key from query i. Ignores the layer's kind of
  /// attention and the causal mask.
  [[nodiscard]] bool sees(std::size_t i, std::size_t key) const;

  /// Returns false if the key mask of the sequence hides the key.
  [[nodiscard]] bool shows(std::size_t key) const {
    return sequence_.key_visible.empty() || sequence_.key_visible[key] != 0;
  }

 private:
  const input::Sequence& sequence_;
  model::AttentionKind kind_;
  std::size_t keys_;
  bool causal_;
  std::size_t mask_head_;
};

/// The visible keys of each query of a sequence, for a comparison with uniform attention.
class VisibleKeys {
 public:
  VisibleKeys() = default;
  /// Throws Error(bad_input) if the sequence has a score mask or separate keys.
  VisibleKeys(const model::AttentionConfig& config, const input::Sequence& sequence);

  [[nodiscard]] std::size_t count(std::size_t query) const { return rows_[query].count; }
  [[nodiscard]] bool shows(std::size_t query, std::size_t key) const {
    const VisibleRow& row = rows_[query];
    return contiguous_ ? key >= row.range.first && key < row.range.last : finds(row, key);
  }
  /// Returns the number of visible keys in [first, last).
  [[nodiscard]] std::size_t count(std::size_t query, std::size_t first, std::size_t last) const {
    const VisibleRow& row = rows_[query];
    if (!contiguous_) return count_among(row, first, last);
    first = std::max(first, row.range.first);
    last = std::min(last, row.range.last);
    return first < last ? last - first : 0;
  }

 private:
  struct VisibleRow {
    KeyRange range;
    std::array<KeySteps, 2> far{};  // keys outside of `range` that strided attention allows
    std::size_t count = 0;
  };
  [[nodiscard]] bool finds(const VisibleRow& row, std::size_t key) const;
  [[nodiscard]] std::size_t count_among(const VisibleRow& row, std::size_t first, std::size_t last) const;

  bool contiguous_ = true;        // if true, each query sees exactly the keys of its range
  std::vector<VisibleRow> rows_;  // [n]
  /// [n + 1]: number of visible keys before each key; empty if the sequence has no key mask.
  std::vector<std::size_t> before_;
  std::vector<std::uint8_t> visible_;  // [n], the key mask, or empty
};

}  // namespace attnctl::forward

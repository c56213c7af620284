#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "analysis/patterns/pattern_row.hpp"
#include "forward/attention/visibility.hpp"

namespace attnctl {

/// The largest offset, key - query, that is counted. Offsets are -8..8.
inline constexpr std::ptrdiff_t largest_offset = 8;
inline constexpr std::size_t offset_count = 2 * largest_offset + 1;

/// Returns the keys of a row [m] that are up to `farthest` tokens before or after its query.
[[nodiscard]] inline KeyRange keys_near(const PatternRow& row, std::size_t farthest) {
  return {row.query - std::min(row.query, farthest), std::min(row.query + farthest + 1, row.weights.size())};
}

/// Calls add(offset + largest_offset) for each offset -8..8 whose key the query of the row may attend to.
/// Null baselines by offset count these keys.
template <typename Add>
void for_each_visible_offset(const PatternRow& row, const VisibleKeys& visible, const Add& add) {
  constexpr std::size_t farthest = largest_offset;
  const KeyRange keys = keys_near(row, farthest);
  for (std::size_t key = keys.first; key < keys.last; ++key) {
    if (visible.shows(row.query, key)) add(key + farthest - row.query);
  }
}

/// Counts of the offsets of the largest weight in each row.
struct OffsetPeaks {
  std::array<std::uint64_t, offset_count> counts{};  // [offset + largest_offset]

  /// Counts the peak of a row. Skips rows whose keys are tokens of another sequence, and offsets beyond
  /// +-largest_offset.
  void add(const PatternRow& row) {
    if (row.marks->over_another) return;
    const auto peak = static_cast<std::ptrdiff_t>(row.argmax) - static_cast<std::ptrdiff_t>(row.query);
    if (std::abs(peak) <= largest_offset) ++counts[static_cast<std::size_t>(peak + largest_offset)];
  }
  [[nodiscard]] std::uint64_t at(std::ptrdiff_t offset) const {
    return counts[static_cast<std::size_t>(offset + largest_offset)];
  }
  /// Returns the most frequent offset, or nullopt if nothing was counted. Ties go to the smaller distance,
  /// then to the negative offset.
  [[nodiscard]] std::optional<std::ptrdiff_t> best() const {
    std::ptrdiff_t best = 0;
    for (std::ptrdiff_t size = 1; size <= largest_offset; ++size) {
      if (at(-size) > at(best)) best = -size;
      if (at(size) > at(best)) best = size;
    }
    if (at(best) == 0) return std::nullopt;
    return best;
  }
};

}  // namespace attnctl

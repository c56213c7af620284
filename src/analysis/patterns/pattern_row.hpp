#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "forward/attention/visibility.hpp"
#include "forward/block.hpp"
#include "forward/observer.hpp"
#include "input/batch.hpp"

namespace attnctl {

/// The meaning of a number in the heads table: one row of the catalogue (analysis/heads_table.hpp).
struct Metric {
  std::string_view name;   // JSON key and CSV column
  std::string_view unit;   // empty: dimensionless
  std::string_view range;  // "[0, 1]"
  std::string_view null;   // the value if nothing was learned; empty if unknown
  std::string_view definition;
  std::string_view source;
};

/// Token information of an input that the metrics use in addition to its patterns.
struct SequenceMarks {
  std::vector<std::uint8_t> end_queries;  // [n], 1: EOS or [SEP]; empty: no such query
  std::vector<std::size_t> special_keys;  // positions, ascending
  std::vector<std::size_t> end_keys;
  bool over_another =
      false;  // true: keys are tokens of another sequence, so no key is the query's own or next token
};

/// Returns the marks of an input. Keys that are given as embeddings have no marks.
[[nodiscard]] SequenceMarks marks_of(const Sides& sides);

/// The attention weights of one query, with the quantities that several metrics use.
struct PatternRow {
  std::span<const float> weights;  // [m]
  KeyRange visible;                // weights outside are 0
  std::size_t query = 0;
  const SequenceMarks* marks = nullptr;
  double total = 0;            // sum of the weights: 1, or less with an attention sink
  double entropy = 0;          // nats
  double distance = 0;         // sum of w_j |j - query|
  double signed_distance = 0;  // sum of w_j (j - query), negative for earlier keys
  float largest = 0;
  std::size_t argmax = 0;  // lowest key with the largest weight

  /// Computes the row. If a weight is not finite, `distance` is not finite either.
  PatternRow(std::span<const float> row_weights, std::size_t row_query, const SequenceMarks& row_marks)
      : PatternRow(row_weights, {0, row_weights.size()}, row_query, row_marks) {}
  PatternRow(std::span<const float> row_weights, KeyRange row_visible, std::size_t row_query,
             const SequenceMarks& row_marks);
};

/// A metric defined as a mean over query rows.
struct RowMetric {
  Metric about;
  /// Returns the value of a row. nullopt (no target key) excludes the row from the mean.
  std::optional<double> (*value)(const PatternRow& row);
};

/// Returns the row metrics in the order of the heads table. To add a metric, add a row here.
[[nodiscard]] std::span<const RowMetric> row_metrics();

/// The largest offset, key - query, that is counted. Offsets are -8..8.
inline constexpr std::ptrdiff_t kLargestOffset = 8;
inline constexpr std::size_t kOffsetCount = 2 * kLargestOffset + 1;

/// Returns the keys of a row [m] that are up to `farthest` tokens before or after its query.
[[nodiscard]] inline KeyRange keys_near(const PatternRow& row, std::size_t farthest) {
  return {row.query - std::min(row.query, farthest), std::min(row.query + farthest + 1, row.weights.size())};
}

/// Calls add(offset + kLargestOffset) for each offset -8..8 whose key the query of the row may attend to.
/// Null baselines by offset count these keys.
template <typename Add>
void for_each_visible_offset(const PatternRow& row, const VisibleKeys& visible, const Add& add) {
  constexpr std::size_t farthest = kLargestOffset;
  const KeyRange keys = keys_near(row, farthest);
  for (std::size_t key = keys.first; key < keys.last; ++key) {
    if (visible.shows(row.query, key)) add(key + farthest - row.query);
  }
}

/// Counts of the offsets of the largest weight in each row.
struct OffsetPeaks {
  std::array<std::uint64_t, kOffsetCount> counts{};  // [offset + kLargestOffset]

  /// Counts the peak of a row. Skips rows whose keys are tokens of another sequence, and offsets beyond
  /// +-kLargestOffset.
  void add(const PatternRow& row) {
    if (row.marks->over_another) return;
    const auto peak = static_cast<std::ptrdiff_t>(row.argmax) - static_cast<std::ptrdiff_t>(row.query);
    if (std::abs(peak) <= kLargestOffset) ++counts[static_cast<std::size_t>(peak + kLargestOffset)];
  }
  [[nodiscard]] std::uint64_t at(std::ptrdiff_t offset) const {
    return counts[static_cast<std::size_t>(offset + kLargestOffset)];
  }
  /// Returns the most frequent offset, or nullopt if nothing was counted. Ties go to the smaller distance,
  /// then to the negative offset.
  [[nodiscard]] std::optional<std::ptrdiff_t> best() const {
    std::ptrdiff_t best = 0;
    for (std::ptrdiff_t size = 1; size <= kLargestOffset; ++size) {
      if (at(-size) > at(best)) best = -size;
      if (at(size) > at(best)) best = size;
    }
    if (at(best) == 0) return std::nullopt;
    return best;
  }
};

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/metric.hpp"
#include "forward/block.hpp"
#include "forward/observer.hpp"
#include "input/batch.hpp"

namespace attnctl {

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

}  // namespace attnctl

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

/// What the metrics know of an input besides its patterns.
struct SequenceMarks {
  std::vector<std::uint8_t> end_queries;  // [n], 1: EOS or [SEP]; empty: none
  std::vector<std::size_t> special_keys;  // positions, ascending
  std::vector<std::size_t> end_keys;
  bool over_another =
      false;  // keys are the tokens of another sequence: no key is the query's own or its next
};

/// Keys that come from elsewhere as embeddings have no marks.
[[nodiscard]] SequenceMarks marks_of(const Sides& sides);

/// One query's weights over the keys and what several metrics need of them, computed once.
struct PatternRow {
  std::span<const float> weights;  // [m]
  KeyRange visible;                // outside, all weights are 0
  std::size_t query = 0;
  const SequenceMarks* marks = nullptr;
  double total = 0;            // of the weights: 1, less where a head has a sink
  double entropy = 0;          // nats
  double distance = 0;         // sum of w_j |j - query|
  double signed_distance = 0;  // sum of w_j (j - query): negative looks back
  float largest = 0;
  std::size_t argmax = 0;  // the first of equal largest weights

  /// Not finite weights give a distance that is not finite.
  PatternRow(std::span<const float> row_weights, std::size_t row_query, const SequenceMarks& row_marks)
      : PatternRow(row_weights, {0, row_weights.size()}, row_query, row_marks) {}
  PatternRow(std::span<const float> row_weights, KeyRange row_visible, std::size_t row_query,
             const SequenceMarks& row_marks);
};

/// A metric that is a mean over query rows.
struct RowMetric {
  Metric about;
  /// nullopt: the row has no value (no target key) and is left out of the mean.
  std::optional<double> (*value)(const PatternRow& row);
};

/// In the order of the heads table. A new one is a row here.
[[nodiscard]] std::span<const RowMetric> row_metrics();

}  // namespace attnctl

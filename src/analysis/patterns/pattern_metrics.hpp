#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/numbers.hpp"
#include "forward/attention/visibility.hpp"
#include "forward/block.hpp"
#include "forward/run.hpp"
#include "results/results.hpp"

namespace attnctl::analysis {

struct SequenceMarks {
  /// [n], 1: the query token is EOS or [SEP]; or empty: no query token is.
  std::vector<std::uint8_t> end_queries;
  std::vector<std::size_t> special_keys;  // positions of special tokens among the keys, ascending
  std::vector<std::size_t> end_keys;      // positions of EOS or [SEP] among the keys, ascending
  /// True in the cross-attention of encoder-decoder models: queries and keys are tokens of different
  /// sequences, so offsets have no meaning.
  bool over_another = false;
};

/// Returns the marks of an input. If the input has separate keys, the lists of key positions are empty.
[[nodiscard]] SequenceMarks marks_of(const forward::Sides& sides);

/// The attention weights w of one query, with the sums that several metrics use.
struct PatternRow {
  std::span<const float> weights;  // [m]
  forward::KeyRange visible;       // keys whose weight can be nonzero
  std::size_t query = 0;           // position of the query
  const SequenceMarks* marks = nullptr;
  double total = 0;            // sum of the weights: 1 after a plain softmax, less with an attention sink
  double entropy = 0;          // -sum of w_j ln w_j, in nats
  double distance = 0;         // sum of w_j |j - query|, in tokens
  double signed_distance = 0;  // sum of w_j (j - query), negative for earlier keys
  float largest = 0;           // largest weight
  std::size_t argmax =
      0;  // lowest key with the largest weight; if all weights are 0: key 0, even if key 0 is hidden

  /// Computes the sums. If a weight is not finite, `distance` is not finite either.
  PatternRow(std::span<const float> row_weights, forward::KeyRange row_visible, std::size_t row_query,
             const SequenceMarks& row_marks);
};

/// A metric of a head that is the mean of a value of each query row.
struct RowMetric {
  Definition about;
  /// Returns the value of one row with finite weights; nullopt if the row is left out of the mean, for
  /// example because the key to measure does not exist.
  std::optional<double> (*value)(const PatternRow& row);
  bool in_text = true;  // the text table of heads shows the metric without --columns
};

/// Returns all row metrics, in the column order of the heads table.
[[nodiscard]] std::span<const RowMetric> row_metrics();

/// The offset of a key is key position minus query position; counted offsets are -8..8.
inline constexpr std::ptrdiff_t kLargestOffset = 8;
inline constexpr std::size_t kOffsetCount = 2 * kLargestOffset + 1;

/// Returns the keys up to `farthest` tokens before or after the query of the row, with the query position.
[[nodiscard]] inline forward::KeyRange keys_near(const PatternRow& row, std::size_t farthest) {
  return {row.query - std::min(row.query, farthest), std::min(row.query + farthest + 1, row.weights.size())};
}

/// Calls add(offset + kLargestOffset) for each offset in -8..8 whose key is visible to the query of the row.
template <typename Add>
void for_each_visible_offset(const PatternRow& row, const forward::VisibleKeys& visible, const Add& add) {
  constexpr std::size_t farthest = kLargestOffset;
  const forward::KeyRange keys = keys_near(row, farthest);
  for (std::size_t key = keys.first; key < keys.last; ++key) {
    if (visible.shows(row.query, key)) add(key + farthest - row.query);
  }
}

/// For each offset, the number of rows whose largest weight is at this offset.
struct OffsetPeaks {
  std::array<std::uint64_t, kOffsetCount> counts{};  // [offset + kLargestOffset]

  /// Counts the offset of the largest weight if it is in -8..8. Skips rows over keys of another sequence.
  void add(const PatternRow& row) {
    if (row.marks->over_another) return;
    const auto peak = static_cast<std::ptrdiff_t>(row.argmax) - static_cast<std::ptrdiff_t>(row.query);
    if (std::abs(peak) <= kLargestOffset) ++counts[static_cast<std::size_t>(peak + kLargestOffset)];
  }
  [[nodiscard]] std::uint64_t at(std::ptrdiff_t offset) const {
    return counts[static_cast<std::size_t>(offset + kLargestOffset)];
  }
  /// Returns the most frequent offset, or nullopt if no row was counted. If counts are equal, returns the
  /// offset closer to 0; of two opposite offsets, the negative one.
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

/// The metrics of one head over all inputs, or over one input.
struct HeadPatternMetrics {
  model::HeadId head;
  std::optional<std::size_t> input;  // index in the batch; nullopt: all inputs pooled
  std::uint64_t rows = 0;            // number of query rows that are not fully masked
  /// One mean per item of row_metrics(). nullopt if no row has a value or if a weight is not finite.
  std::vector<std::optional<double>> means;
  /// Most frequent offset of OffsetPeaks. nullopt if no offset was counted or if a weight is not finite.
  std::optional<std::int64_t> best_offset;
  /// Share of the rows whose largest weight is at best_offset; 0 if no offset was counted. nullopt in the
  /// cross-attention of encoder-decoder models, without rows, or if a weight is not finite.
  std::optional<double> best_offset_share;
};

/// Computes the pattern metrics of the selected heads. Sums are exact, so results do not depend on the number
/// of threads, the panel size or the order of the inputs. If a weight of a head is not finite, the metrics
/// of that head are undefined, with `per_input` only for that input.
class PatternMetrics final : public forward::Observer {
 public:
  /// @param per_input  true: one record per head and input; false: one record per head
  PatternMetrics(const forward::Selection& selection, bool per_input)
      : heads_(selection.heads), per_input_(per_input) {}

  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  void begin(const model::Model& model, const input::Batch& batch) override;
  void panel(const forward::AttentionPanel& panel) override;

  /// Returns the metrics sorted by input, then in selection order.
  [[nodiscard]] std::vector<HeadPatternMetrics> finish() const;

 private:
  struct Mean {
    ExactSum sum;
    std::uint64_t count = 0;
  };
  struct MetricSums {
    std::vector<Mean> means;
    OffsetPeaks peaks;
    std::uint64_t rows = 0;
    bool finite = true;
  };

  void add(MetricSums& state, const PatternRow& row) const;

  std::vector<model::HeadId> heads_;
  bool per_input_ = false;
  std::vector<model::Component> components_;  // [layers]
  /// Key: index of the sequence and component of the head.
  std::map<std::pair<std::size_t, model::Component>, SequenceMarks> marks_;
  std::vector<MetricSums> states_;  // [inputs or 1, heads]
};

}  // namespace attnctl::analysis

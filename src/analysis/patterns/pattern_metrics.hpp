#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/patterns/offset_peaks.hpp"
#include "analysis/patterns/pattern_row.hpp"
#include "base/exact_sum.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// The metrics of one head over all inputs, or over one.
struct HeadPatternMetrics {
  HeadId head;
  std::optional<std::size_t> input;          // in the batch; nullopt: all inputs pooled
  std::uint64_t rows = 0;                    // query rows that were averaged: fully masked ones are left out
  std::vector<std::optional<double>> means;  // [row_metrics()]; nullopt: no row has a value
  std::optional<std::int64_t> best_offset;   // where most rows have their largest weight; nullopt: nowhere
  std::optional<double> best_offset_share;   // of all rows
};

/// Computes pattern metrics panel by panel. A metric is the sum over all query rows divided by their number;
/// sums are exact, so that neither threads nor panels nor the order of inputs change a bit. A head with a
/// weight that is not finite has undefined metrics (the pass warns of such patterns).
class PatternMetrics final : public Observer {
 public:
  /// per_input: one record for each head and input, in place of one a head.
  PatternMetrics(const Selection& selection, bool per_input);

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// By input, then in the order of the selection.
  [[nodiscard]] std::vector<HeadPatternMetrics> finish() const;

 private:
  struct Mean {
    ExactSum sum;
    std::uint64_t count = 0;
  };
  struct State {
    std::vector<Mean> means;
    OffsetPeaks peaks;
    std::uint64_t rows = 0;
    bool finite = true;
  };

  void add(State& state, const PatternRow& row) const;
  [[nodiscard]] bool over_another(HeadId head) const {
    return components_.at(head.layer) == Component::cross;
  }

  std::vector<HeadId> heads_;
  bool per_input_ = false;
  std::vector<Component> components_;                                 // [layers]
  std::map<std::pair<std::size_t, Component>, SequenceMarks> marks_;  // of a sequence in a selected component
  std::vector<State> states_;                                         // [records, heads]
};

}  // namespace attnctl

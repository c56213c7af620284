#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/patterns/pattern_row.hpp"
#include "base/exact_sum.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// The metrics of one head over all inputs, or over one input.
struct HeadPatternMetrics {
  HeadId head;
  std::optional<std::size_t> input;  // index in the batch; nullopt: all inputs pooled
  std::uint64_t rows = 0;            // number of averaged query rows; fully masked rows are excluded
  /// One mean per item of row_metrics(). nullopt if no row has a value.
  std::vector<std::optional<double>> means;
  /// Most frequent offset of OffsetPeaks. nullopt if no offset was counted.
  std::optional<std::int64_t> best_offset;
  std::optional<double> best_offset_share;  // share of the rows whose largest weight is at best_offset
};

/// Computes the pattern metrics of the selected heads. Each metric is a mean over query rows. Sums are exact,
/// so results do not depend on the number of threads, the panel size or the order of the inputs. If a weight
/// of a head is not finite, the metrics of that head are undefined, and the forward pass adds a warning.
class PatternMetrics final : public Observer {
 public:
  /// @param per_input  true: one record per head and input; false: one record per head
  PatternMetrics(const Selection& selection, bool per_input);

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// Returns the metrics sorted by input, then in selection order.
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
  std::vector<Component> components_;  // [layers]
  /// Key: index of the sequence and component of the head.
  std::map<std::pair<std::size_t, Component>, SequenceMarks> marks_;
  std::vector<State> states_;  // [inputs or 1, heads]
};

}  // namespace attnctl

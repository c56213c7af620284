#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/pool.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// How sharp a head is, over its rows of at least two visible keys: rows of one key are sharp whatever the
/// head does.
struct HeadTemperature {
  HeadId head;
  std::uint64_t rows = 0;
  /// Within rows, since softmax does not see what all keys of a row have in common: the sum of the squared
  /// deviations of visible scores from their row's mean, over the sum of (keys - 1).
  std::optional<double> score_variance;
  std::optional<double> entropy;      // mean over rows, nats
  std::optional<double> temperature;  // temperature_of_entropy (analysis/normal_scores.hpp)
  std::optional<double> saturated;    // share of the rows whose largest weight is over the threshold
};

/// Effective temperature of every selected head, panel by panel. A head with a score that is neither finite
/// nor hidden has undefined values.
class Temperatures final : public Observer {
 public:
  explicit Temperatures(const Selection& selection, double saturation = 0.99);

  [[nodiscard]] Needs needs() const override { return {.scores = true}; }
  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// In the order of the selection.
  [[nodiscard]] std::vector<HeadTemperature> finish(Pool& pool) const;

 private:
  struct State {
    std::vector<std::uint64_t> rows_by_keys;
    std::uint64_t rows = 0;
    std::uint64_t saturated = 0;
    double freedom = 0;  // sum of keys - 1
    double squared_deviations = 0;
    double entropy = 0;
    bool finite = true;
  };
  void add_row(State& state, std::span<const float> pattern, std::span<const float> scores) const;

  std::vector<HeadId> heads_;
  double saturation_;
  std::vector<State> states_;  // [heads]
};

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/pool.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// Number of rows by visible keys: rows_by_keys[m] rows have m keys. The entropies below are means over
/// these rows.
using RowsByKeys = std::span<const std::uint64_t>;

/// Returns the expected mean entropy (nats) of rows softmax(tau g) with independent standard normal g, by
/// quadrature. With Z = sum exp(tau g_j) it is E ln Z - tau d/dtau E ln Z (dE ln Z/dtau = E sum p_j g_j). E
/// ln Z = -gamma + int (1[u < 0] - phi(u)^m) du, where phi(u) = E exp(-exp(u + tau g)) is another integral.
/// The absolute error is below 1e-7 for tau up to 1000 and m up to 65536. tau must be positive. There must
/// be at least one row, and no row without keys.
[[nodiscard]] double normal_score_entropy(double tau, RowsByKeys rows_by_keys);

/// Returns the temperature T at which rows softmax(g / T) of standard normal scores g have this mean
/// entropy. Scores of unit variance have T = 1, and sharp heads have a low T. The relative error is 1e-7.
/// Returns nullopt if T is not between 0.001 and 1000.
[[nodiscard]] std::optional<double> temperature_of_entropy(double mean_entropy, RowsByKeys rows_by_keys);

/// The sharpness of a head, over rows with at least two visible keys. Rows with one key are always sharp.
struct HeadTemperature {
  HeadId head;
  std::uint64_t rows = 0;
  /// Variance of the visible scores within rows: the sum of squared deviations from the row mean, divided by
  /// the sum of (keys - 1). Row means are removed because softmax does not depend on them.
  std::optional<double> score_variance;
  std::optional<double> entropy;      // mean over rows, in nats
  std::optional<double> temperature;  // temperature_of_entropy
  std::optional<double> saturated;    // share of rows whose largest weight exceeds the threshold
};

/// Computes the effective temperature of every selected head, updated with every panel. If a score of a head
/// is neither finite nor hidden, its values are undefined.
class Temperatures final : public Observer {
 public:
  explicit Temperatures(const Selection& selection, double saturation = 0.99);

  [[nodiscard]] Needs needs() const override { return {.scores = true}; }
  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// Returns the temperatures in selection order.
  [[nodiscard]] std::vector<HeadTemperature> finish(Pool& pool) const;

 private:
  struct State {
    std::vector<std::uint64_t> rows_by_keys;
    std::uint64_t rows = 0;
    std::uint64_t saturated = 0;
    double freedom = 0;  // sum of (keys - 1)
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

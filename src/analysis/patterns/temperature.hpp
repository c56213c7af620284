#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/pool.hpp"
#include "forward/run.hpp"

namespace attnctl::analysis {

/// rows_by_keys[m] is the number of rows with m visible keys. Entropies are means over all these rows.
using RowsByKeys = std::span<const std::uint64_t>;

/// Returns the expected mean entropy, in nats, of rows softmax(tau g), where the entries of g are independent
/// standard normal. tau is the inverse temperature and must be positive. There must be at least one row, and
/// every row must have a key. Computed by quadrature. With Z = sum exp(tau g_j), the expected entropy of a
/// row is E ln Z - tau d/dtau E ln Z, because d/dtau E ln Z = E sum p_j g_j with p = softmax(tau g). For m
/// keys, E ln Z = -gamma + int (1[u < 0] - phi(u)^m) du, where gamma is Euler's constant and phi(u) = E
/// exp(-exp(u + tau g)). The absolute error is below 1e-7 for tau up to 1000 and m up to 65536.
[[nodiscard]] double normal_score_entropy(double tau, RowsByKeys rows_by_keys);

/// Returns the temperature T at which rows softmax(g / T) of standard normal scores g have the given mean
/// entropy. A low T means sharp attention; scores of variance 1 have T = 1. Returns nullopt if T is outside
/// [0.001, 1000].
[[nodiscard]] std::optional<double> temperature_of_entropy(double mean_entropy, RowsByKeys rows_by_keys);

/// The sharpness of a head, over the rows with at least two visible keys: the others have entropy 0.
struct HeadTemperature {
  model::HeadId head;
  std::uint64_t rows = 0;  // number of counted rows
  /// Variance of the visible scores within rows: the sum of squared deviations from the row mean, divided by
  /// the sum of (keys - 1). Row means are removed because softmax does not depend on them.
  std::optional<double> score_variance;
  std::optional<double> entropy;      // mean over rows, in nats
  std::optional<double> temperature;  // temperature_of_entropy(entropy)
  std::optional<double> saturated;    // share of rows whose largest weight exceeds a limit (Temperatures)
};

/// Computes the temperatures of the selected heads. `saturation` is the limit of HeadTemperature::saturated.
/// If a row with at least two visible keys has a score NaN or +inf, all values of the head except `rows` are
/// undefined, and `rows` does not count this row.
class Temperatures final : public forward::Observer {
 public:
  Temperatures(const forward::Selection& selection, double saturation)
      : heads_(selection.heads), saturation_(saturation) {}

  [[nodiscard]] forward::Needs needs() const override { return {.scores = true}; }
  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  void begin(const model::Model& /*model*/, const input::Batch& /*batch*/) override {
    states_.assign(heads_.size(), {});
  }
  void panel(const forward::AttentionPanel& panel) override;

  /// Returns the temperatures in selection order.
  [[nodiscard]] std::vector<HeadTemperature> finish(Pool& pool) const;

 private:
  struct ScoreSums {
    std::vector<std::uint64_t> rows_by_keys;
    std::uint64_t rows = 0;
    std::uint64_t saturated = 0;
    double freedom = 0;  // sum of (keys - 1)
    double squared_deviations = 0;
    double entropy = 0;
    bool finite = true;
  };
  void add_row(ScoreSums& state, std::span<const float> pattern, std::span<const float> scores) const;

  std::vector<model::HeadId> heads_;
  double saturation_;
  std::vector<ScoreSums> states_;  // [heads]
};

}  // namespace attnctl::analysis

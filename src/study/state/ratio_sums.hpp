#pragma once

#include <cstdint>
#include <optional>

#include "study/state/moments.hpp"
#include "study/state/state_io.hpp"

namespace attnctl {

struct ConfidenceInterval {
  double low = 0, high = 0;

  [[nodiscard]] bool operator==(const ConfidenceInterval&) const = default;
};

/// The contribution of one sentence to a mean over rows.
struct SentenceTerm {
  double sum = 0;
  double null = 0;  // expected sum if nothing was learned
  std::uint64_t rows = 0;

  void add(double value, double null_value) {
    sum += value;
    null += null_value;
    ++rows;
  }
};

/// The mean of a share (0 to 1) over the rows of all sentences, with a confidence interval. Rows of one
/// sentence are not independent, so the sentence is the sampling unit (ratio estimator for clusters, Cochran
/// 1977, section 6.4). One instance adds the sentences of one block; instances can be merged in any order.
class RatioSums {
 public:
  /// Adds a sentence. A sentence without rows changes nothing.
  void add(const SentenceTerm& term);
  void merge(const RatioSums& other);

  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t sentences() const { return sentences_; }
  [[nodiscard]] std::optional<double> mean() const;
  [[nodiscard]] std::optional<double> null() const;
  /// Returns the 95 % confidence interval, clipped to [0, 1]. It uses Student's t with sentences() - 1
  /// degrees of freedom. Returns nullopt if there are fewer than two sentences.
  [[nodiscard]] std::optional<ConfidenceInterval> interval() const;

  void save(StateWriter& out) const;
  void load(StateReader& in);

 private:
  std::uint64_t sentences_ = 0, rows_ = 0, rows_squared_ = 0;
  BlockSum sum_, null_, sum_squared_, sum_rows_;  // over sentences; sum_rows_: of sum * rows
};

/// Returns the 97.5 % quantile of Student's t. `degrees` must be at least 1.
[[nodiscard]] double student_quantile(std::uint64_t degrees);

}  // namespace attnctl

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

/// What one sentence adds to a mean over rows.
struct SentenceTerm {
  double sum = 0;
  double null = 0;  // what the rows would give where nothing was learned
  std::uint64_t rows = 0;

  void add(double value, double null_value) {
    sum += value;
    null += null_value;
    ++rows;
  }
};

/// The mean of a share (0 to 1) over the rows of all sentences, with an interval over sentences: rows of one
/// sentence are not independent of each other, so sentences are what is sampled (ratio estimator of clusters,
/// Cochran 1977, section 6.4). Of one block, whose sentences come in one order, or merged in any.
class RatioSums {
 public:
  /// A sentence without rows adds nothing.
  void add(const SentenceTerm& term);
  void merge(const RatioSums& other);

  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t sentences() const { return sentences_; }
  [[nodiscard]] std::optional<double> mean() const;
  [[nodiscard]] std::optional<double> null() const;
  /// 95 %, by Student's t with a degree of freedom fewer than sentences; nullopt for fewer than two. Cut to
  /// 0 to 1.
  [[nodiscard]] std::optional<ConfidenceInterval> interval() const;

  void save(StateWriter& out) const;
  void load(StateReader& in);

 private:
  std::uint64_t sentences_ = 0, rows_ = 0, rows_squared_ = 0;
  BlockSum sum_, null_, sum_squared_, sum_rows_;  // of sentences: sums, their squares, and times their rows
};

/// The 97.5 % quantile of Student's t, for at least one degree of freedom.
[[nodiscard]] double student_quantile(std::uint64_t degrees);

}  // namespace attnctl

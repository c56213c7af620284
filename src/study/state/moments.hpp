#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/exact_sum.hpp"

namespace attnctl {

class StateReader;
class StateWriter;

/// A sum over the rows of a corpus. Within one block, whose rows come in one order, it is a double; over
/// blocks it is exact, so that no order of merging changes a bit. Terms are finite.
class BlockSum {
 public:
  BlockSum() = default;
  explicit BlockSum(const ExactSum& merged) : merged_(merged) {}

  void add(double term) { open_ += term; }
  void merge(const BlockSum& other);
  [[nodiscard]] ExactSum total() const;
  [[nodiscard]] double value() const { return total().value(); }

  void save(StateWriter& out) const;
  void load(StateReader& in);

 private:
  double open_ = 0;  // of the one block that this instance sees
  ExactSum merged_;
};

/// Fixed bins, the same for every instance. `linear`: equal widths over [0, highest). `octaves`: eight bins
/// an octave of the magnitude from 2^-6 up, either sign its own, what is smaller in the bin of 0.
struct Bins {
  enum class Kind { linear, octaves };
  Kind kind = Kind::linear;
  double highest = 1;       // of linear
  std::size_t count = 128;  // of linear

  [[nodiscard]] std::size_t size() const;
  /// What lies outside goes to the outermost bin.
  [[nodiscard]] std::size_t index(double value) const;
  /// Adds one to the count of the bin of each value; counts: [size()].
  void fill(std::span<const double> values, std::span<std::uint64_t> counts) const;
  /// Where bin `index` begins; that of size() is where the last one ends.
  [[nodiscard]] double edge(std::size_t index) const;
};

/// What is known of a quantity over all its observations; undefined without any.
struct MomentsSummary {
  std::uint64_t count = 0;
  std::optional<double> mean;
  std::optional<double> variance;  // the mean square of what differs from the mean
  std::optional<double> minimum, maximum;
};

/// Count, mean, variance, extremes and a histogram of one quantity; mergeable, any order gives the same
/// bytes.
class Moments {
 public:
  explicit Moments(const Bins& bins) : bins_(bins), histogram_(bins.size()) {}

  void add(double value) { add(std::span(&value, 1)); }
  /// One after the other, in their order.
  void add(std::span<const double> values);
  void merge(const Moments& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] MomentsSummary summary() const;
  /// The value below which a share `q` of the observations lies: exact to a bin, within which observations
  /// are taken as evenly spread, and never outside the extremes.
  [[nodiscard]] std::optional<double> quantile(double q) const;
  [[nodiscard]] const std::vector<std::uint64_t>& histogram() const { return histogram_; }

  void save(StateWriter& out) const;
  void load(StateReader& in);

 private:
  Bins bins_;
  std::uint64_t count_ = 0;
  BlockSum sum_, squares_;
  double minimum_ = std::numeric_limits<double>::infinity();
  double maximum_ = -std::numeric_limits<double>::infinity();
  std::vector<std::uint64_t> histogram_;
};

}  // namespace attnctl

#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/numbers.hpp"
#include "study/state/state_io.hpp"

// Sums and samples of rows of the corpus that can be merged in any order.
namespace attnctl::study {

/// A sum of finite terms over the rows of a corpus. Within one block, the sum is a double, because the order
/// of the rows is fixed. Across blocks, it is an ExactSum, so that the order of merging does not change a
/// bit.
class BlockSum {
 public:
  BlockSum() = default;
  explicit BlockSum(const ExactSum& merged) : merged_(merged) {}

  void add(double term) { open_ += term; }
  void merge(const BlockSum& other) { merged_.merge(other.total()); }
  [[nodiscard]] ExactSum total() const {
    ExactSum sum = merged_;
    sum.add(open_);
    return sum;
  }
  [[nodiscard]] double value() const { return total().value(); }

  void save(StateWriter& out) const { out.sum(total()); }
  void load(StateReader& in) { *this = BlockSum(in.sum()); }

 private:
  double open_ = 0;  // sum of the block that this instance processes
  ExactSum merged_;
};

/// A BlockSum whose state takes fewer bytes for sums of integers, such as counts.
struct CompactSum : BlockSum {
  void save(StateWriter& out) const {
    const auto [fraction, whole] = total().words();
    out.flag(fraction == 0);
    if (fraction != 0) return BlockSum::save(out);
    out.number(whole);
  }
  void load(StateReader& in) {
    static_cast<BlockSum&>(*this) = BlockSum(in.flag() ? ExactSum::from_words({0, in.number()}) : in.sum());
  }
};

/// Sums of the weights on some keys, and of the weights that uniform attention puts on these keys.
struct WeightSums {
  std::uint64_t count = 0;  // number of rows, or of pairs of a query and a key
  BlockSum weight, uniform;

  auto parts() { return std::tie(count, weight, uniform); }
  void add(std::uint64_t new_count, double new_weight, double new_uniform) {
    count += new_count;
    weight.add(new_weight);
    uniform.add(new_uniform);
  }
};

/// The bins of a histogram. They do not depend on the data. `linear`: bins of equal width over [0, highest).
/// `octaves`: for each sign, eight bins per octave of the magnitude from 2^-6 to 2^26; smaller magnitudes are
/// in the bin of 0.
struct Bins {
  enum class Spacing { linear, octaves };
  Spacing spacing = Spacing::linear;
  double highest = 1;       // for linear
  std::size_t count = 128;  // for linear

  [[nodiscard]] std::size_t size() const;
  /// Adds 1 to the count of each value's bin. Values outside the range belong to the first or last bin.
  /// counts: [size()].
  void fill(std::span<const double> values, std::span<std::uint64_t> counts) const;
  /// Returns the lower edge of a bin. edge(size()) is the upper edge of the last bin.
  [[nodiscard]] double edge(std::size_t index) const;
};

struct MomentsSummary {
  std::uint64_t count = 0;
  std::optional<double> mean;
  std::optional<double> variance;  // mean squared difference from the mean
  std::optional<double> minimum, maximum;
};

/// Count, mean, variance, extremes and a histogram of one quantity.
class QuantityMoments {
 public:
  explicit QuantityMoments(const Bins& bins) : bins_(bins), histogram_(bins.size()) {}

  void add(double value) { add(std::span(&value, 1)); }
  void add(std::span<const double> values);
  void merge(const QuantityMoments& other) {
    count_ += other.count_;
    sum_.merge(other.sum_);
    squares_.merge(other.squares_);
    minimum_ = std::min(minimum_, other.minimum_);
    maximum_ = std::max(maximum_, other.maximum_);
    merge_state(histogram_, other.histogram_);
  }

  [[nodiscard]] MomentsSummary summary() const {
    if (count_ == 0) return {};
    const auto n = static_cast<double>(count_);
    const double mean = sum_.value() / n;
    return {count_, mean, std::max(0.0, squares_.value() / n - mean * mean), minimum_, maximum_};
  }
  /// Returns an estimate of the quantile `q` (0 to 1) from the histogram, as if the observations of a bin
  /// were evenly spread. Returns nullopt without observations.
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

struct ConfidenceInterval {
  double low = 0, high = 0;

  [[nodiscard]] bool operator==(const ConfidenceInterval&) const = default;
};

/// A share (0 to 1) of observations in clusters, such as rows in sentences, or a difference of two shares.
struct ShareEstimate {
  double share = 0;
  double error = 0;            // standard error of a ratio of sums over clusters: see cluster_error()
  std::uint64_t count = 0;     // number of observations
  std::uint64_t clusters = 0;  // at least 2

  /// Returns Wilson's score interval (1927) of a share with confidence 1 - 0.05 / `tests`. Instead of the
  /// number of observations, uses the effective number, at most `count` (Korn and Graubard 1998); instead of
  /// the normal quantile, uses that of Student's t with clusters - 1 degrees of freedom.
  [[nodiscard]] ConfidenceInterval interval(std::size_t tests = 1) const;
  /// Returns the interval of the difference of two shares of the same observations, with one observation
  /// more for each of them (Bonett and Price 2012).
  [[nodiscard]] ConfidenceInterval difference_interval(std::size_t tests = 1) const;
};

/// Returns the standard error of r = sum a_i / sum b_i over clusters (Cochran 1977, section 6.4). `residual`
/// is the sum of (a_i - r b_i)^2, and `count` the sum of b_i. `clusters` must be at least 2.
[[nodiscard]] double cluster_error(double residual, std::uint64_t count, std::uint64_t clusters);

/// The sums over the rows of one sentence, for a mean over the rows of the corpus. If a sentence is cut into
/// windows, each window counts as a sentence, and so does each probe sequence.
struct SentenceTerm {
  double sum = 0;
  double null = 0;  // the sum under the null, such as uniform attention
  std::uint64_t rows = 0;

  void add(double value, double null_value) {
    sum += value;
    null += null_value;
    ++rows;
  }
};

/// The mean of a share (0 to 1) or of another number over the rows of all sentences, with a confidence
/// interval. Rows of one
/// sentence are not independent, so the sentences are the clusters. One instance adds the sentences of one
/// block.
class RatioSums {
 public:
  void add(const SentenceTerm& term) {
    if (term.rows == 0) return;
    ++sentences_;
    rows_ += term.rows;
    rows_squared_ += term.rows * term.rows;
    sum_.add(term.sum);
    null_.add(term.null);
    sum_squared_.add(term.sum * term.sum);
    sum_rows_.add(term.sum * static_cast<double>(term.rows));
  }
  /// Returns the sums of a sentence, to which rows are added. All rows of a sentence come before those of the
  /// next sentence.
  [[nodiscard]] SentenceTerm& open(std::size_t sequence) {
    if (std::exchange(sequence_, sequence) != sequence) add(std::exchange(open_, {}));
    return open_;
  }
  /// Adds the open sentence, which the functions below do not count, and returns the members of the state.
  auto parts() {
    add(std::exchange(open_, {}));
    return std::tie(sentences_, rows_, rows_squared_, sum_, null_, sum_squared_, sum_rows_);
  }

  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t sentences() const { return sentences_; }
  [[nodiscard]] std::optional<double> mean() const { return per_row(sum_); }
  [[nodiscard]] std::optional<double> null() const { return per_row(null_); }
  /// Returns nullopt if there are no rows or fewer than two sentences.
  [[nodiscard]] std::optional<ShareEstimate> estimate() const;
  /// Returns the 95 % interval of a mean that is not a share but any number from 0: mean - t e and mean + t
  /// e, at least 0, where e is the standard error (see cluster_error()) and t the quantile of Student's t
  /// with sentences - 1 degrees of freedom. Returns nullopt if there are fewer than two sentences.
  [[nodiscard]] std::optional<ConfidenceInterval> mean_interval() const;

 private:
  [[nodiscard]] std::optional<double> per_row(const BlockSum& sum) const {
    return rows_ == 0 ? std::nullopt : std::optional(sum.value() / static_cast<double>(rows_));
  }

  SentenceTerm open_;
  std::size_t sequence_ = 0;  // index of the sentence of open_ in its block
  std::uint64_t sentences_ = 0, rows_ = 0, rows_squared_ = 0;
  CompactSum sum_, null_, sum_squared_, sum_rows_;  // sums over sentences; sum_rows_ is the sum of sum * rows
};

/// Returns the value that Student's t exceeds with probability `tail` (above 0, at most 0.5). `degrees` must
/// be at least 1. The relative error is below 2e-5 for tails of at least 1e-9.
[[nodiscard]] double student_quantile(double tail, std::uint64_t degrees);

/// The key of a row (query): a random number, the number of the block, and the row's index in the block.
struct DrawnKey {
  std::uint64_t drawn = 0, block = 0, row = 0;

  [[nodiscard]] auto operator<=>(const DrawnKey&) const = default;  // NOLINT(modernize-use-nullptr)
  auto parts() { return std::tie(drawn, block, row); }
};

/// A uniform random sample of rows from the whole corpus, with the outputs of all heads. The sample keeps the
/// rows with the smallest random numbers. A random number depends only on the seed, the block and the row, so
/// shards and the order of merging do not change the sample (bottom-k sampling: Cohen and Kaplan 2007).
class DrawnRows {
 public:
  using Rows = std::map<DrawnKey, std::vector<float>>;

  void set_capacity(std::size_t rows) { capacity_ = rows; }
  [[nodiscard]] const Rows& rows() const { return rows_; }
  /// Returns the largest key of a full sample: a row with a larger key can no longer be drawn.
  [[nodiscard]] std::optional<DrawnKey> end() const {
    if (capacity_ == 0 || rows_.size() < capacity_) return std::nullopt;
    return std::prev(rows_.end())->first;
  }
  bool add(const DrawnKey& key, std::vector<float> row);
  void merge(const DrawnRows& other) {
    capacity_ = std::max(capacity_, other.capacity_);
    for (const auto& [key, row] : other.rows_) {
      if (!add(key, row)) return;  // the rows that follow have larger keys
    }
  }
  void save(StateWriter& out) const {
    out.number(capacity_);
    out.number(rows_.size());
    for (const auto& [key, row] : rows_) {
      save_state(out, key);
      out.floats(row);
    }
  }
  /// Reads a state. `width` is the number of floats per row.
  void load(StateReader& in, std::size_t width);

 private:
  std::size_t capacity_ = 0;
  Rows rows_;
};

/// Returns for each row of a block the key with which the row may enter a sample of `capacity` rows, or
/// nullopt if the row is not drawn, [rows]. `end` is DrawnRows::end() of the sample of the study so far.
[[nodiscard]] std::vector<std::optional<DrawnKey>> draw_rows(std::uint64_t seed, std::uint64_t block,
                                                             std::size_t rows, std::size_t capacity,
                                                             const std::optional<DrawnKey>& end);

/// A selection of evenly spaced rows of a block that fit into a workspace: every s-th row, from row s / 2 on.
/// s is the smallest integer, not below (elements of all rows) / capacity, for which these rows fit. No row
/// is selected if there is no such s.
struct RowSample {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  RowSample() = default;
  /// `widths` is the number of elements of each row; `capacity` is the number of elements of the workspace.
  RowSample(std::span<const std::size_t> widths, std::size_t capacity);

  /// [rows of the block], index of each row's first element in the workspace; kNone: not selected.
  std::vector<std::size_t> offsets;
  std::size_t size = 0;  // elements of all selected rows
  std::size_t rows = 0;  // number of selected rows
};

}  // namespace attnctl::study

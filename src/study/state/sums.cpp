#include "study/state/sums.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <numeric>

namespace attnctl::study {
namespace {

// For Spacing::octaves, the exponent and the first bits of the mantissa of a magnitude determine its bin.
constexpr unsigned kStepBits = 3;
constexpr unsigned kShift = 52 - kStepBits;
constexpr double kSmallest = 0x1p-6;
constexpr double kLargest = 0x1p26;
constexpr std::uint64_t kFirst = std::bit_cast<std::uint64_t>(kSmallest) >> kShift;
constexpr std::size_t kMagnitudes = (std::bit_cast<std::uint64_t>(kLargest) >> kShift) - kFirst;

double magnitude_edge(std::size_t bin) {
  return std::bit_cast<double>((kFirst + bin) << kShift);
}

std::size_t linear_bin(const Bins& bins, double value) {
  if (!(value > 0)) return 0;
  const double place = value / bins.highest * static_cast<double>(bins.count);
  return place < static_cast<double>(bins.count) ? static_cast<std::size_t>(place) : bins.count - 1;
}

std::size_t octave_bin(double value) {
  const double magnitude = std::abs(value);
  if (!(magnitude >= kSmallest)) return kMagnitudes;
  const std::size_t bin =
      std::min<std::size_t>((std::bit_cast<std::uint64_t>(magnitude) >> kShift) - kFirst, kMagnitudes - 1);
  return value < 0 ? kMagnitudes - 1 - bin : kMagnitudes + 1 + bin;
}

}  // namespace

std::size_t Bins::size() const {
  return spacing == Spacing::linear ? count : 2 * kMagnitudes + 1;
}

void Bins::fill(std::span<const double> values, std::span<std::uint64_t> counts) const {
  if (spacing == Spacing::linear) {
    for (const double value : values) ++counts[linear_bin(*this, value)];
  } else {
    for (const double value : values) ++counts[octave_bin(value)];
  }
}

double Bins::edge(std::size_t index) const {
  if (spacing == Spacing::linear) return highest * static_cast<double>(index) / static_cast<double>(count);
  if (index <= kMagnitudes) return -magnitude_edge(kMagnitudes - index);
  return magnitude_edge(index - kMagnitudes - 1);
}

void QuantityMoments::add(std::span<const double> values) {
  count_ += values.size();
  BlockSum sum = sum_;  // local copies, so that the compiler keeps them in registers
  BlockSum squares = squares_;
  double minimum = minimum_;
  double maximum = maximum_;
  for (const double value : values) {
    sum.add(value);
    squares.add(value * value);
    minimum = value < minimum ? value : minimum;
    maximum = value > maximum ? value : maximum;
  }
  sum_ = sum;
  squares_ = squares;
  minimum_ = minimum;
  maximum_ = maximum;
  bins_.fill(values, histogram_);
}

std::optional<double> QuantityMoments::quantile(double q) const {
  if (count_ == 0) return std::nullopt;
  const double wanted = q * static_cast<double>(count_);
  double before = 0;
  for (std::size_t i = 0; i < histogram_.size(); ++i) {
    const auto here = static_cast<double>(histogram_[i]);
    if (here == 0 || before + here < wanted) {
      before += here;
      continue;
    }
    const double within = bins_.edge(i) + (bins_.edge(i + 1) - bins_.edge(i)) * ((wanted - before) / here);
    return std::clamp(within, minimum_, maximum_);
  }
  return maximum_;
}

void QuantityMoments::save(StateWriter& out) const {
  out.number(count_);
  sum_.save(out);
  squares_.save(out);
  out.real(minimum_);
  out.real(maximum_);
  out.number(histogram_.size());
  // Writes runs of bins. For each run, writes the number of empty bins, the number of non-empty bins that
  // follow, and the counts of the non-empty bins.
  for (std::size_t i = 0; i < histogram_.size();) {
    const auto first = std::find_if(histogram_.begin() + static_cast<std::ptrdiff_t>(i), histogram_.end(),
                                    [](std::uint64_t n) { return n != 0; });
    const auto last = std::find(first, histogram_.end(), std::uint64_t{0});
    out.number(static_cast<std::uint64_t>(first - histogram_.begin()) - i);
    out.number(static_cast<std::uint64_t>(last - first));
    for (auto bin = first; bin != last; ++bin) out.number(*bin);
    i = static_cast<std::size_t>(last - histogram_.begin());
  }
}

void QuantityMoments::load(StateReader& in) {
  count_ = in.number();
  sum_.load(in);
  squares_.load(in);
  minimum_ = in.real();
  maximum_ = in.real();
  in.expect(bins_.size(), "histogram bins");
  histogram_.assign(bins_.size(), 0);
  for (std::size_t i = 0; i < histogram_.size();) {
    const std::uint64_t empty = in.number();
    const std::uint64_t full = in.number();
    const std::size_t left = histogram_.size() - i;
    if (empty > left || full > left - empty || empty + full == 0)
      in.damaged("a histogram has a wrong number of bins");
    i += empty;
    for (const std::size_t end = i + full; i < end; ++i) histogram_[i] = in.number();
  }
}

ConfidenceInterval ShareEstimate::interval(std::size_t tests) const {
  const double p = std::clamp(share, 0.0, 1.0);
  const double variance = p * (1 - p);  // of one observation that is 0 or 1
  const auto n = static_cast<double>(count);
  const double design = variance > 0 ? std::max(1.0, n * error * error / variance) : 1;
  const double t = student_quantile(0.025 / static_cast<double>(tests), clusters - 1);
  const double z = t * t * design / n;  // square of the quantile / effective number of observations
  const double half = std::sqrt(z * variance + z * z / 4);
  return {std::max(0.0, (p + z / 2 - half) / (1 + z)), std::min(1.0, (p + z / 2 + half) / (1 + z))};
}

ConfidenceInterval ShareEstimate::difference_interval(std::size_t tests) const {
  const auto n = static_cast<double>(count);
  const double t = student_quantile(0.025 / static_cast<double>(tests), clusters - 1);
  const double half = t * std::hypot(n * error, std::numbers::sqrt2) / (n + 2);
  const double middle = n * share / (n + 2);
  return {std::max(-1.0, middle - half), std::min(1.0, middle + half)};
}

double cluster_error(double residual, std::uint64_t count, std::uint64_t clusters) {
  const auto n = static_cast<double>(clusters);
  return std::sqrt(std::max(0.0, residual) * n / (n - 1)) / static_cast<double>(count);
}

std::optional<ShareEstimate> RatioSums::estimate() const {
  if (sentences_ < 2 || rows_ == 0) return std::nullopt;
  const double ratio = *mean();
  // The sum over all sentences of (sum - ratio * rows)^2.
  const double residual = sum_squared_.value() - 2 * ratio * sum_rows_.value() +
                          ratio * ratio * static_cast<double>(rows_squared_);
  return ShareEstimate{ratio, cluster_error(residual, rows_, sentences_), rows_, sentences_};
}

std::optional<ConfidenceInterval> RatioSums::mean_interval() const {
  const std::optional<ShareEstimate> of = estimate();
  if (!of) return std::nullopt;
  const double half = student_quantile(0.025, of->clusters - 1) * of->error;
  return ConfidenceInterval{std::max(0.0, of->share - half), of->share + half};
}

double student_quantile(double tail, std::uint64_t degrees) {
  // Returns the largest x in [0, highest] for which the decreasing function `above` exceeds the tail.
  const auto inverse = [&](double highest, const auto& above) {
    double low = 0, high = highest;
    for (int i = 0; i < 60; ++i) (above((low + high) / 2) > tail ? low : high) = (low + high) / 2;
    return low;
  };
  const auto v = static_cast<double>(degrees);
  if (degrees > 100) {  // Abramowitz and Stegun 1964, 26.7.5
    const double x = inverse(40, [](double z) { return std::erfc(z / std::numbers::sqrt2) / 2; });
    const double y = x * x;
    const double first = (y + 1) / 4;
    const double second = ((5 * y + 16) * y + 3) / 96;
    const double third = (((3 * y + 19) * y + 17) * y - 15) / 384;
    return x * (1 + (first + (second + third / v) / v) / v);
  }
  // Abramowitz and Stegun 1964, 26.7.3 and 26.7.4, with t = sqrt(v) tan(angle).
  const bool odd = degrees % 2 == 1;
  const double angle = inverse(std::numbers::pi / 2, [&](double a) {
    const double cosine = std::cos(a);
    double term = odd ? cosine : 1, sum = 0;
    for (std::uint64_t k = odd ? 3 : 2; k <= degrees; k += 2) {
      sum += term;
      term *= cosine * cosine * static_cast<double>(k - 1) / static_cast<double>(k);
    }
    const double within = std::sin(a) * sum;
    return (1 - (odd ? (a + within) * 2 / std::numbers::pi : within)) / 2;
  });
  return std::sqrt(v) * std::tan(angle);
}

bool DrawnRows::add(const DrawnKey& key, std::vector<float> row) {
  const auto last = end();
  if (capacity_ == 0 || (last && !(key < *last))) return false;
  rows_.emplace(key, std::move(row));
  if (rows_.size() > capacity_) rows_.erase(std::prev(rows_.end()));
  return true;
}

void DrawnRows::load(StateReader& in, std::size_t width) {
  rows_.clear();
  capacity_ = in.number();
  const std::size_t count = in.count();
  if (count > capacity_) in.damaged("there are too many rows of outputs");
  for (std::size_t i = 0; i < count; ++i) {
    DrawnKey key;
    load_state(in, key);
    if (!rows_.empty() && !(std::prev(rows_.end())->first < key))
      in.damaged("rows of outputs are not in order");
    rows_.emplace(key, in.floats(width));
  }
}

std::vector<std::optional<DrawnKey>> draw_rows(std::uint64_t seed, std::uint64_t block, std::size_t rows,
                                               std::size_t capacity, const std::optional<DrawnKey>& end) {
  const std::uint64_t block_seed = Random(seed, block).next();
  std::vector<DrawnKey> drawn(rows);
  for (std::size_t row = 0; row < rows; ++row) drawn[row] = {Random(block_seed, row).next(), block, row};
  std::sort(drawn.begin(), drawn.end());
  drawn.resize(std::min(rows, capacity));
  std::vector<std::optional<DrawnKey>> keys(rows);
  for (const DrawnKey& key : drawn) {
    if (!end || key < *end) keys[key.row] = key;
  }
  return keys;
}

RowSample::RowSample(std::span<const std::size_t> widths, std::size_t capacity)
    : offsets(widths.size(), kNone) {
  const std::size_t all = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
  if (all == 0 || capacity == 0) return;
  for (std::size_t step = (all + capacity - 1) / capacity; step / 2 < widths.size(); ++step) {
    std::size_t wanted = 0;
    for (std::size_t row = step / 2; row < widths.size(); row += step) wanted += widths[row];
    if (wanted > capacity) continue;
    for (std::size_t row = step / 2; row < widths.size(); row += step) {
      offsets[row] = size;
      size += widths[row];
      ++rows;
    }
    return;
  }
}

}  // namespace attnctl::study

#include "study/state/ratio_sums.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace attnctl {
namespace {

/// Writes a sum. Sums of integers, such as counts, take fewer bytes.
void save_sum(StateWriter& out, const BlockSum& sum) {
  const auto [fraction, whole] = sum.total().words();
  out.flag(fraction == 0);
  if (fraction == 0) {
    out.number(whole);
  } else {
    sum.save(out);
  }
}

BlockSum load_sum(StateReader& in) {
  return BlockSum(in.flag() ? ExactSum::from_words({0, in.number()}) : in.sum());
}

}  // namespace

void RatioSums::add(const SentenceTerm& term) {
  if (term.rows == 0) return;
  const auto rows = static_cast<double>(term.rows);
  ++sentences_;
  rows_ += term.rows;
  rows_squared_ += term.rows * term.rows;
  sum_.add(term.sum);
  null_.add(term.null);
  sum_squared_.add(term.sum * term.sum);
  sum_rows_.add(term.sum * rows);
}

void RatioSums::merge(const RatioSums& other) {
  sentences_ += other.sentences_;
  rows_ += other.rows_;
  rows_squared_ += other.rows_squared_;
  sum_.merge(other.sum_);
  null_.merge(other.null_);
  sum_squared_.merge(other.sum_squared_);
  sum_rows_.merge(other.sum_rows_);
}

std::optional<double> RatioSums::mean() const {
  if (rows_ == 0) return std::nullopt;
  return sum_.value() / static_cast<double>(rows_);
}

std::optional<double> RatioSums::null() const {
  if (rows_ == 0) return std::nullopt;
  return null_.value() / static_cast<double>(rows_);
}

std::optional<ConfidenceInterval> RatioSums::interval() const {
  if (sentences_ < 2) return std::nullopt;
  const auto n = static_cast<double>(sentences_);
  const double ratio = *mean();
  // Sum of (sum - ratio * rows)^2 over sentences.
  const double residual = sum_squared_.value() - 2 * ratio * sum_rows_.value() +
                          ratio * ratio * static_cast<double>(rows_squared_);
  const double error = std::sqrt(std::max(0.0, residual) * n / (n - 1)) / static_cast<double>(rows_);
  const double half = student_quantile(sentences_ - 1) * error;
  return ConfidenceInterval{std::max(0.0, ratio - half), std::min(1.0, ratio + half)};
}

void RatioSums::save(StateWriter& out) const {
  for (const std::uint64_t number : {sentences_, rows_, rows_squared_}) out.number(number);
  for (const BlockSum* const sum : {&sum_, &null_, &sum_squared_, &sum_rows_}) save_sum(out, *sum);
}

void RatioSums::load(StateReader& in) {
  for (std::uint64_t* const number : {&sentences_, &rows_, &rows_squared_}) *number = in.number();
  for (BlockSum* const sum : {&sum_, &null_, &sum_squared_, &sum_rows_}) *sum = load_sum(in);
}

double student_quantile(std::uint64_t degrees) {
  // Fisher and Yates 1963, table III.
  constexpr std::array table = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060,
                                2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199,
                                2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
                                2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
  if (degrees <= table.size()) return table[degrees - 1];
  // Abramowitz and Stegun 1964, 26.7.5; accurate to 1e-4 for these degrees of freedom.
  constexpr double x = 1.959964;
  const auto v = static_cast<double>(degrees);
  const double first = (x * x * x + x) / 4;
  const double second = (5 * std::pow(x, 5) + 16 * x * x * x + 3 * x) / 96;
  return x + first / v + second / (v * v);
}

}  // namespace attnctl

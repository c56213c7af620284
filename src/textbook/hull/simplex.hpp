#pragma once

#include <cmath>
#include <cstddef>
#include <gmpxx.h>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"

namespace attnctl {

/// The point sum_j mu_j a_j, mu >= 0, that is nearest to a target in the L1 norm, and the proof that none is
/// nearer. All numbers are numerators over one positive denominator; as doubles over 1.
template <typename Number>
struct Nearest {
  std::vector<std::size_t> columns;  // those with a variable in the basis, at most dimensions + 1
  std::vector<Number> weights;       // of these, >= 0; of all others 0
  Number distance{};
  std::vector<Number> normal;  // [d], y: |y_i| <= 1, y a_j <= c for every j and y t - c = distance, where c =
                               // 0, or with weights that sum to 1 the largest y a_j
  Number denominator{};
};

/// min |sum_j mu_j a_j - t|_1 over mu >= 0 (and sum mu = 1 where `convex`) by the simplex method on a dense
/// tableau: in double, or exact on integers by pivots free of fractions (Edmonds 1967, Bareiss 1968). Takes
/// the steepest column, and Bland's (1977) while pivots move nothing, so that the exact one always ends.
template <typename Number>
class Simplex {
 public:
  /// columns [n, d]: row j is a_j; n >= 1 where `convex`.
  Simplex(MatrixView<const Number> columns, std::span<const Number> target, bool convex)
      : n_(columns.rows),
        d_(columns.cols),
        rows_(d_ + (convex ? 1 : 0)),
        width_(n_ + 2 * d_ + 1),
        cells_((rows_ + 1) * width_),
        basis_(rows_),
        denominator_(1) {
    for (std::size_t i = 0; i < d_; ++i) fill_row(i, columns, target, convex);
    for (std::size_t c = 0; c < 2 * d_; ++c) at(rows_, n_ + c) += 1;  // the cost of being off
    if (!convex) return;
    for (std::size_t j = 0; j < n_; ++j) at(d_, j) = 1;
    at(d_, width_ - 1) = 1;
    basis_[d_] = 0;
  }

  /// nullopt: in double, rounding led nowhere.
  [[nodiscard]] std::optional<Nearest<Number>> solve() {
    const std::size_t most = kExact ? std::numeric_limits<std::size_t>::max() : 50 * (rows_ + width_);
    std::size_t idle = 0;  // pivots in a row that moved nothing
    for (std::size_t pivots = 0;; ++pivots) {
      const std::size_t column = entering(idle > 2 * rows_);
      if (column == kNone) return result();
      const std::size_t row = leaving(column);
      if (row == kNone || pivots == most) return std::nullopt;
      idle = sign(at(row, width_ - 1)) > 0 ? 0 : idle + 1;
      pivot(row, column);
    }
  }

 private:
  static constexpr bool kExact = std::is_same_v<Number, mpz_class>;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  static constexpr double kTolerance = 1e-10;  // of doubles; columns are of the order of 1

  /// -1, 0 or 1.
  static int sign(const Number& value) {
    if constexpr (kExact) {
      return sgn(value);
    } else {
      return value > kTolerance ? 1 : value < -kTolerance ? -1 : 0;
    }
  }

  [[nodiscard]] Number& at(std::size_t row, std::size_t column) { return cells_[row * width_ + column]; }

  /// Row i with the first column in the basis where the sum is bound: a_j - a_0 in place of a_j. The basis
  /// has the unit column that makes the right side positive, and the row of reduced costs is that of it.
  void fill_row(std::size_t i, MatrixView<const Number> columns, std::span<const Number> target,
                bool convex) {
    const Number from = convex ? columns(0, i) : Number(0);
    Number right = target[i] - from;
    const bool flipped = right < 0;
    for (std::size_t j = 0; j < n_; ++j) {
      at(i, j) = columns(j, i) - from;
      if (flipped) at(i, j) = -at(i, j);
      at(rows_, j) -= at(i, j);
    }
    at(i, n_ + i) = flipped ? -1 : 1;
    at(i, n_ + d_ + i) = flipped ? 1 : -1;
    at(rows_, n_ + i) -= at(i, n_ + i);
    at(rows_, n_ + d_ + i) -= at(i, n_ + d_ + i);
    if (flipped) right = -right;
    at(rows_, width_ - 1) -= right;
    at(i, width_ - 1) = std::move(right);
    basis_[i] = n_ + (flipped ? d_ : 0) + i;
  }

  [[nodiscard]] std::size_t entering(bool first) {
    std::size_t best = kNone;
    for (std::size_t c = 0; c + 1 < width_; ++c) {
      const Number& cost = at(rows_, c);
      if (sign(cost) >= 0) continue;
      if (best == kNone || cost < at(rows_, best)) best = c;
      if (first) break;
    }
    return best;
  }

  /// The row whose variable is the first to reach 0 as the column's grows; of equals the lowest variable.
  [[nodiscard]] std::size_t leaving(std::size_t column) {
    std::size_t best = kNone;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (sign(at(r, column)) <= 0) continue;
      if (best == kNone) {
        best = r;
        continue;
      }
      const Number mine = at(r, width_ - 1) * at(best, column);
      const Number other = at(best, width_ - 1) * at(r, column);
      if (mine < other || (mine == other && basis_[r] < basis_[best])) best = r;
    }
    return best;
  }

  void pivot(std::size_t row, std::size_t column) {
    const Number pivot = at(row, column);
    if constexpr (!kExact) {
      for (std::size_t c = 0; c < width_; ++c) at(row, c) /= pivot;
    }
    for (std::size_t r = 0; r <= rows_; ++r) {
      const Number factor = at(r, column);
      if (r == row || (!kExact && factor == 0)) continue;
      for (std::size_t c = 0; c < width_; ++c) eliminate(at(r, c), pivot, factor, at(row, c));
    }
    if constexpr (kExact) denominator_ = pivot;
    basis_[row] = column;
  }

  /// cell - factor above / pivot, over the new denominator; in double `above` is divided already.
  void eliminate(Number& cell, [[maybe_unused]] const Number& pivot, const Number& factor,
                 const Number& above) const {
    if constexpr (kExact) {
      cell *= pivot;
      mpz_submul(cell.get_mpz_t(), factor.get_mpz_t(), above.get_mpz_t());
      if (denominator_ != 1) mpz_divexact(cell.get_mpz_t(), cell.get_mpz_t(), denominator_.get_mpz_t());
    } else {
      cell -= factor * above;
    }
  }

  [[nodiscard]] Nearest<Number> result() {
    Nearest<Number> nearest;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (basis_[r] >= n_) continue;
      nearest.columns.push_back(basis_[r]);
      nearest.weights.push_back(at(r, width_ - 1));
    }
    nearest.distance = -at(rows_, width_ - 1);
    for (std::size_t i = 0; i < d_; ++i) nearest.normal.push_back(denominator_ - at(rows_, n_ + i));
    nearest.denominator = denominator_;
    return nearest;
  }

  std::size_t n_, d_, rows_, width_;  // the last column is the right side, the last row the reduced costs
  std::vector<Number> cells_;
  std::vector<std::size_t> basis_;  // [rows]: the variable of each: columns, then +, then - each dimension
  Number denominator_;
};

}  // namespace attnctl

#include "textbook/convex_hull.hpp"

#include <algorithm>
#include <cmath>
#include <gmpxx.h>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

#include "base/error.hpp"

// A custom simplex method. All exact LP libraries of Debian 12 (GLPK, QSopt_ex, cddlib, lrslib, PPL, the
// solver of CGAL) are under the GPL, and attnctl is under the Apache License 2.0.

namespace attnctl {
namespace {

using Rational = mpq_class;
using RationalVector = std::vector<Rational>;
using Indices = std::vector<std::size_t>;

/// The point sum_j w_j a_j that is nearest to a target in the L1 norm, and the proof that it is the nearest.
template <typename Value>
struct Nearest {
  Indices columns;             // the columns in the final basis, at most d + 1; all other weights are 0
  std::vector<Value> weights;  // one per element of `columns`, >= 0
  Value distance{};
  /// The dual solution y [d]: |y_i| <= 1, y a_j <= c for every j, and y t - c = distance, where c is 0, or
  /// the largest y a_j if the weights sum to 1.
  std::vector<Value> normal;
};

/// Solves min |sum_j w_j a_j - t|_1 over w >= 0 (and sum w = 1 if `convex`) by the simplex method on a dense
/// tableau: in double, or exactly on integers with fraction-free pivots (Edmonds 1967, Bareiss 1968), which
/// are 9 times faster than pivots in rationals. Pivots on the column with the lowest reduced cost; after many
/// pivots without progress on the first negative one (Bland 1977), so that the exact program always ends.
template <typename Number>
class Simplex {
 public:
  using Value = std::conditional_t<std::is_same_v<Number, double>, double, Rational>;

  /// Row j of `columns` [n, d] is a_j. `convex` needs n >= 1.
  Simplex(MatrixView<const Number> columns, std::span<const Number> target, bool convex)
      : n_(columns.rows),
        d_(columns.cols),
        rows_(d_ + (convex ? 1 : 0)),
        cells_(rows_ + 1, n_ + 2 * d_ + 1),
        basis_(rows_) {
    for (std::size_t i = 0; i < d_; ++i) fill_row(i, columns, target, convex);
    for (std::size_t c = n_; c < right(); ++c) cells_(rows_, c) += 1;  // the cost of a deviation
    if (!convex) return;
    for (std::size_t j = 0; j < n_; ++j) cells_(d_, j) = 1;
    cells_(d_, right()) = 1;
    basis_[d_] = 0;
  }

  /// Returns nullopt only in double, if rounding errors prevent a solution.
  [[nodiscard]] std::optional<Nearest<Value>> solve() {
    const std::size_t most_pivots = 50 * (rows_ + cells_.cols());
    std::size_t idle = 0;  // consecutive pivots that did not reduce the distance
    for (std::size_t pivots = 0; kExact || pivots <= most_pivots; ++pivots) {
      const auto column = entering_column(idle > 2 * rows_);
      if (!column) return result();
      const auto row = leaving_row(*column);
      if (!row) return std::nullopt;
      idle = sign(cells_(*row, right())) > 0 ? 0 : idle + 1;
      pivot(*row, *column);
    }
    return std::nullopt;
  }

 private:
  static constexpr bool kExact = std::is_same_v<Number, mpz_class>;
  static constexpr double kTolerance = 1e-10;  // for doubles; columns are scaled to the order of 1

  static int sign(const Number& value) {
    if constexpr (kExact) return sgn(value);
    return value > kTolerance ? 1 : value < -kTolerance ? -1 : 0;
  }

  [[nodiscard]] std::size_t right() const { return cells_.cols() - 1; }

  /// Fills row i. If the sum of weights is fixed, column 0 is in the basis and a_j - a_0 replaces a_j. The
  /// other basis column is the unit column that makes the right side positive.
  void fill_row(std::size_t i, MatrixView<const Number> columns, std::span<const Number> target,
                bool convex) {
    const Number origin = convex ? columns(0, i) : Number(0);
    cells_(i, right()) = target[i] - origin;
    for (std::size_t j = 0; j < n_; ++j) cells_(i, j) = columns(j, i) - origin;
    cells_(i, n_ + i) = 1;
    cells_(i, n_ + d_ + i) = -1;
    const bool negative = cells_(i, right()) < 0;
    for (std::size_t c = 0; c < cells_.cols(); ++c) {
      if (negative) cells_(i, c) = -cells_(i, c);
      cells_(rows_, c) -= cells_(i, c);
    }
    basis_[i] = n_ + (negative ? d_ : 0) + i;
  }

  [[nodiscard]] std::optional<std::size_t> entering_column(bool first) const {
    std::optional<std::size_t> best;
    for (std::size_t c = 0; c < right(); ++c) {
      if (sign(cells_(rows_, c)) >= 0) continue;
      if (!best || cells_(rows_, c) < cells_(rows_, *best)) best = c;
      if (first) break;
    }
    return best;
  }

  /// Returns the row whose variable reaches 0 first as the column's variable grows. Ties go to the lowest
  /// variable.
  [[nodiscard]] std::optional<std::size_t> leaving_row(std::size_t column) const {
    std::optional<std::size_t> best;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (sign(cells_(r, column)) <= 0) continue;
      if (!best) {
        best = r;
        continue;
      }
      const Number here = cells_(r, right()) * cells_(*best, column);
      const Number there = cells_(*best, right()) * cells_(r, column);
      if (here < there || (here == there && basis_[r] < basis_[*best])) best = r;
    }
    return best;
  }

  /// Pivots on one cell. Exact cells are numerators over denominator_, which is the last pivot. In double,
  /// the denominator is 1.
  void pivot(std::size_t row, std::size_t column) {
    const Number divisor = cells_(row, column);
    for (std::size_t r = 0; r <= rows_; ++r) {
      const Number factor = cells_(r, column);
      if (r == row || (!kExact && factor == 0)) continue;
      for (std::size_t c = 0; c < cells_.cols(); ++c)
        eliminate(cells_(r, c), divisor, factor, cells_(row, c));
    }
    if constexpr (kExact) {
      denominator_ = divisor;
    } else {
      for (double& cell : cells_.view().row(row)) cell /= divisor;
    }
    basis_[row] = column;
  }

  void eliminate(Number& cell, const Number& divisor, const Number& factor, const Number& above) const {
    if constexpr (kExact) {
      cell = cell * divisor - factor * above;
      mpz_divexact(cell.get_mpz_t(), cell.get_mpz_t(), denominator_.get_mpz_t());
    } else {
      cell -= factor * (above / divisor);
    }
  }

  [[nodiscard]] Value value_of(const Number& cell) const {
    if constexpr (kExact) {
      return Rational(cell) / denominator_;
    } else {
      return cell;
    }
  }

  [[nodiscard]] Nearest<Value> result() const {
    Nearest<Value> nearest;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (basis_[r] >= n_) continue;
      nearest.columns.push_back(basis_[r]);
      nearest.weights.push_back(value_of(cells_(r, right())));
    }
    nearest.distance = -value_of(cells_(rows_, right()));
    for (std::size_t i = 0; i < d_; ++i) nearest.normal.push_back(1 - value_of(cells_(rows_, n_ + i)));
    return nearest;
  }

  std::size_t n_, d_, rows_;
  OwnedMatrix<Number> cells_;  // the last column is the right side, the last row the reduced costs
  Indices basis_;              // [rows] variables: the n columns, then + and - per dimension
  Number denominator_{1};
};

Rational dot(std::span<const Rational> a, std::span<const mpz_class> b) {
  Rational sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

HullQuery query_of(const RationalVector& values) {
  HullQuery query;
  bool rounded = false;
  for (const Rational& value : values) {
    query.values.push_back(value.get_d());
    query.exact.push_back(value.get_str());
    rounded = rounded || Rational(query.values.back()) != value;
  }
  if (!rounded) query.exact.clear();
  return query;
}

/// Scales the values to integers without a common divisor.
void make_primitive(RationalVector& values) {
  mpz_class denominator(1);
  for (const Rational& value : values) denominator = lcm(denominator, value.get_den());
  for (Rational& value : values) value *= denominator;
  mpz_class divisor;
  for (const Rational& value : values) divisor = gcd(divisor, value.get_num());
  if (divisor <= 1) return;
  for (Rational& value : values) value /= divisor;
}

/// The points in double, and exactly as integer multiples of 2^-bits.
struct Points {
  explicit Points(MatrixView<const double> points) : values(points), exact(points.rows, points.cols) {
    for (std::size_t j = 0; j < points.rows; ++j) {
      for (std::size_t i = 0; i < points.cols; ++i) {
        if (!std::isfinite(points(j, i)))
          fail(Status::bad_input, "point {}: component {} is not finite; need numbers", j, i);
        bits = std::max(bits, mpz_sizeinbase(Rational(points(j, i)).get_den_mpz_t(), 2) - 1);
      }
    }
    for (std::size_t j = 0; j < points.rows; ++j) {
      for (std::size_t i = 0; i < points.cols; ++i)
        exact(j, i) = Rational(Rational(points(j, i)) << bits).get_num();
    }
  }

  MatrixView<const double> values;
  OwnedMatrix<mpz_class> exact;
  std::size_t bits = 0;
};

/// Decides whether one point p of the set is a vertex, compared with the other points.
class Decision {
 public:
  Decision(const Points& points, std::size_t index) : points_(points), index_(index) {
    for (std::size_t j = 0; j < points.values.rows; ++j) {
      if (j != index) others_.push_back(j);
    }
    differences_ = OwnedMatrix<double>(others_.size(), points.values.cols);
    double largest = 0;
    for (std::size_t o = 0; o < others_.size(); ++o) {
      for (std::size_t i = 0; i < points.values.cols; ++i) {
        differences_(o, i) = points.values(others_[o], i) - points.values(index, i);
        largest = std::max(largest, std::abs(differences_(o, i)));
      }
    }
    // Scaling by a power of two makes the differences about 1 without rounding.
    const int exponent = largest > 0 && std::isfinite(largest) ? -std::ilogb(largest) : 0;
    for (double& value : differences_.values()) value = std::ldexp(value, exponent);
  }

  [[nodiscard]] HullPoint decide() {
    HullPoint result;
    if (others_.empty()) {
      result.vertex = true;
      result.witness.values.assign(points_.values.cols, 0);
      return result;
    }
    result.twin = twin();
    if (result.twin) {
      result.combination = {{*result.twin, 1, "1"}};
    } else {
      separate_or_combine(result);
    }
    if (!result.vertex) find_support(result);
    return result;
  }

 private:
  [[nodiscard]] std::optional<std::size_t> twin() const {
    for (const std::size_t other : others_) {
      if (std::ranges::equal(points_.values.row(index_), points_.values.row(other))) return other;
    }
    return std::nullopt;
  }

  [[nodiscard]] Indices all() const {
    Indices which(others_.size());
    std::iota(which.begin(), which.end(), std::size_t{0});
    return which;
  }

  /// Returns the exact differences x - p. `which` holds the indices of the points x in others_.
  [[nodiscard]] OwnedMatrix<mpz_class> exact_differences(const Indices& which) const {
    OwnedMatrix<mpz_class> differences(which.size(), points_.values.cols);
    for (std::size_t c = 0; c < which.size(); ++c) {
      for (std::size_t i = 0; i < points_.values.cols; ++i)
        differences(c, i) = points_.exact(others_[which[c]], i) - points_.exact(index_, i);
    }
    return differences;
  }

  /// Returns q (p - x) for one x of others_.
  [[nodiscard]] Rational lead(const RationalVector& query, std::size_t other) const {
    return dot(query, points_.exact.view().row(index_)) -
           dot(query, points_.exact.view().row(others_[other]));
  }

  /// Returns the smallest lead over all others. The query proves a vertex if it is positive.
  [[nodiscard]] Rational margin(const RationalVector& query) const {
    Rational least = lead(query, 0);
    for (std::size_t o = 1; o < others_.size(); ++o) least = std::min(least, lead(query, o));
    return least;
  }

  /// Stores the query as the witness if it proves a vertex.
  bool accept_witness(HullQuery query, const RationalVector& exact, HullPoint& result) const {
    Rational least = margin(exact);
    if (sgn(least) <= 0) return false;
    least >>= points_.bits;
    result.vertex = true;
    result.witness = std::move(query);
    result.margin = least.get_d();
    return true;
  }

  bool accept_witness(const std::vector<double>& query, HullPoint& result) const {
    return accept_witness({query, {}}, RationalVector(query.begin(), query.end()), result);
  }

  /// Finds a witness in double. If that fails, solves the exact program: first on the columns of the final
  /// basis in double, then on all columns.
  void separate_or_combine(HullPoint& result) const {
    const std::vector<double> origin(points_.values.cols);
    auto guess = Simplex<double>(differences_.view(), origin, true).solve();
    if (guess && guess->distance > 0) {
      for (double& value : guess->normal) value = std::clamp(value, -1.0, 1.0);
      if (accept_witness(guess->normal, result)) return;
    }
    const std::vector<mpz_class> exact_origin(points_.values.cols);
    for (const Indices& which : {guess ? guess->columns : all(), all()}) {
      const OwnedMatrix<mpz_class> columns = exact_differences(which);
      const auto nearest = Simplex<mpz_class>(columns.view(), exact_origin, true).solve();
      if (sgn(nearest->distance) == 0) {
        for (std::size_t c = 0; c < nearest->columns.size(); ++c) {
          const Rational& weight = nearest->weights[c];
          if (sgn(weight) == 0) continue;
          result.combination.push_back(
              {others_[which[nearest->columns[c]]], weight.get_d(), weight.get_str()});
        }
        std::ranges::sort(result.combination, {}, &HullWeight::point);
        return;
      }
      const HullQuery query = query_of(nearest->normal);
      if (accept_witness(query.values, result) || accept_witness(query, nearest->normal, result)) return;
    }
  }

  /// Adds up queries that have p among their maxima until no query lowers another tied point. The remaining
  /// tied points are those of the smallest face that contains p.
  void find_support(HullPoint& result) const {
    Indices tied = all();
    RationalVector query(points_.values.cols);
    while (!tied.empty()) {
      const auto next = lower_some(tied);
      if (!next) break;
      for (std::size_t i = 0; i < query.size(); ++i) query[i] += (*next)[i];
      std::erase_if(tied, [&](std::size_t other) { return sgn(lead(*next, other)) > 0; });
    }
    if (tied.size() == others_.size()) return;
    make_primitive(query);
    Rational largest;
    for (const Rational& value : query) largest = std::max<Rational>(largest, abs(value));
    if (largest >= 0x1p53) {
      for (Rational& value : query) value /= largest;  // within the range of double
    }
    result.support = query_of(query);
    for (const std::size_t other : tied) result.ties.push_back(others_[other]);
  }

  /// Returns q with q x <= q p for all others and q x < q p for some of `tied`, or nullopt if there is none:
  /// then p is a combination of all of `tied` with positive weights. It is the dual solution of
  /// min |sum_x w_x (x - p) + sum over tied (x - p)|_1.
  [[nodiscard]] std::optional<RationalVector> lower_some(const Indices& tied) const {
    std::vector<mpz_class> target(points_.values.cols);
    const OwnedMatrix<mpz_class> at_level = exact_differences(tied);
    for (std::size_t c = 0; c < tied.size(); ++c) {
      for (std::size_t i = 0; i < target.size(); ++i) target[i] -= at_level(c, i);
    }
    std::vector<double> guess_target(points_.values.cols);
    for (const std::size_t other : tied) {
      for (std::size_t i = 0; i < guess_target.size(); ++i)
        guess_target[i] -= differences_(other, i) / static_cast<double>(tied.size());
    }
    const auto guess = Simplex<double>(differences_.view(), guess_target, false).solve();
    for (const Indices& which : {guess ? guess->columns : all(), all()}) {
      const OwnedMatrix<mpz_class> columns = exact_differences(which);
      auto nearest = Simplex<mpz_class>(columns.view(), target, false).solve();
      if (sgn(nearest->distance) == 0) return std::nullopt;
      if (sgn(margin(nearest->normal)) < 0) continue;  // a point outside `which` is higher than p
      make_primitive(nearest->normal);
      return std::move(nearest->normal);
    }
    return std::nullopt;  // unreachable: the solution on all columns is valid
  }

  const Points& points_;
  std::size_t index_;
  Indices others_;
  OwnedMatrix<double> differences_;  // [others, d]: x - p, scaled
};

}  // namespace

std::vector<HullPoint> hull_points(MatrixView<const double> points, Pool& pool) {
  const Points shared(points);
  std::vector<HullPoint> result(points.rows);
  pool.run(points.rows,
           [&](std::size_t task, std::size_t /*worker*/) { result[task] = Decision(shared, task).decide(); });
  return result;
}

}  // namespace attnctl

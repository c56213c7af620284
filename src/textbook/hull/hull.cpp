#include "textbook/hull/hull.hpp"

#include <algorithm>
#include <cmath>
#include <gmpxx.h>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "textbook/hull/simplex.hpp"

namespace attnctl {
namespace {

using Integers = std::vector<mpz_class>;
using Indices = std::vector<std::size_t>;

/// The power of two that makes every value an integer, at least 2^0.
int fraction_bits(std::span<const double> values) {
  int bits = 0;
  for (const double value : values) {
    if (value == 0) continue;
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);  // of at most 53 bits
    const auto digits = static_cast<std::int64_t>(std::ldexp(fraction, 53));
    int trailing = 0;
    while ((digits >> trailing) % 2 == 0) ++trailing;
    bits = std::max(bits, 53 - trailing - exponent);
  }
  return bits;
}

mpz_class scaled(double value, int bits) {
  mpq_class exact(value);
  exact <<= static_cast<unsigned long>(bits);
  return exact.get_num();  // the denominator is 1
}

mpz_class dot(std::span<const mpz_class> a, std::span<const mpz_class> b) {
  mpz_class sum;
  for (std::size_t i = 0; i < a.size(); ++i) mpz_addmul(sum.get_mpz_t(), a[i].get_mpz_t(), b[i].get_mpz_t());
  return sum;
}

/// The same points as doubles and as integers, of which one is 2^-bits.
struct Points {
  MatrixView<const double> values;
  OwnedMatrix<mpz_class> integers;
  int bits = 0;
};

HullQuery query_of(const Integers& numerators, const mpz_class& denominator) {
  HullQuery query;
  bool rounded = false;
  for (const mpz_class& numerator : numerators) {
    mpq_class value(numerator, denominator);
    value.canonicalize();
    query.values.push_back(value.get_d());
    query.exact.push_back(value.get_str());
    rounded = rounded || mpq_class(query.values.back()) != value;
  }
  if (!rounded) query.exact.clear();
  return query;
}

/// Divides by what all have in common.
void make_primitive(Integers& values) {
  mpz_class common;
  for (const mpz_class& value : values) common = gcd(common, value);
  if (common <= 1) return;
  for (mpz_class& value : values) value /= common;
}

/// Makes the integers primitive; what to divide by so that doubles can hold them: 1 where they are small.
mpz_class range_of(Integers& values) {
  make_primitive(values);
  mpz_class largest;
  for (const mpz_class& value : values) largest = std::max<mpz_class>(largest, abs(value));
  return largest < mpz_class(1) << 53 ? mpz_class(1) : largest;
}

/// One point of the set against the others.
class Place {
 public:
  Place(const Points& points, std::size_t index) : points_(points), index_(index) {
    for (std::size_t j = 0; j < points.values.rows; ++j) {
      if (j != index) others_.push_back(j);
    }
    const std::size_t d = points.values.cols;
    from_ = OwnedMatrix<double>(others_.size(), d);
    double largest = 0;
    for (std::size_t o = 0; o < others_.size(); ++o) {
      for (std::size_t i = 0; i < d; ++i) {
        from_(o, i) = points.values(others_[o], i) - points.values(index, i);
        largest = std::max(largest, std::abs(from_(o, i)));
      }
    }
    // Of the order of 1 for the double program, without rounding.
    const int exponent = largest > 0 && std::isfinite(largest) ? -std::ilogb(largest) : 0;
    for (double& value : from_.values()) value = std::ldexp(value, exponent);
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
    } else if (!separate(result)) {
      combine(result);
    }
    if (!result.vertex) support(result);
    return result;
  }

 private:
  [[nodiscard]] std::optional<std::size_t> twin() const {
    const auto mine = points_.values.row(index_);
    for (const std::size_t other : others_) {
      const auto theirs = points_.values.row(other);
      if (std::equal(mine.begin(), mine.end(), theirs.begin())) return other;
    }
    return std::nullopt;
  }

  /// Others (places in others_) minus the point, in integers.
  [[nodiscard]] OwnedMatrix<mpz_class> exact_columns(const Indices& which) const {
    const std::size_t d = points_.values.cols;
    OwnedMatrix<mpz_class> columns(which.size(), d);
    for (std::size_t c = 0; c < which.size(); ++c) {
      for (std::size_t i = 0; i < d; ++i) {
        columns(c, i) = points_.integers(others_[which[c]], i) - points_.integers(index_, i);
      }
    }
    return columns;
  }

  [[nodiscard]] Indices all() const {
    Indices which(others_.size());
    std::iota(which.begin(), which.end(), std::size_t{0});
    return which;
  }

  /// q.(x - p) of one of the others.
  [[nodiscard]] mpz_class beyond(const Integers& query, std::size_t other) const {
    const std::span<const mpz_class> theirs = points_.integers.view().row(others_[other]);
    return dot(query, theirs) - dot(query, points_.integers.view().row(index_));
  }

  /// The least of q.(p - x): positive where q proves a vertex.
  [[nodiscard]] mpz_class margin_of(const Integers& query) const {
    mpz_class most;
    for (std::size_t o = 0; o < others_.size(); ++o) {
      mpz_class each = beyond(query, o);
      if (o == 0 || each > most) most = std::move(each);
    }
    return -most;
  }

  /// Takes a query of doubles as witness where it is one.
  bool witnesses(std::vector<double> query, HullPoint& result) const {
    const int bits = fraction_bits(query);
    Integers exact;
    for (const double value : query) exact.push_back(scaled(value, bits));
    const mpz_class margin = margin_of(exact);
    if (sgn(margin) <= 0) return false;
    mpq_class length(margin);
    length >>= static_cast<unsigned long>(bits);
    length >>= static_cast<unsigned long>(points_.bits);
    result.vertex = true;
    result.witness.values = std::move(query);
    result.margin = length.get_d();
    return true;
  }

  /// The program in double: whether its query is a witness. What it bases its answer on is kept.
  bool separate(HullPoint& result) {
    const std::vector<double> origin(points_.values.cols, 0.0);
    auto nearest = Simplex<double>(std::as_const(from_).view(), origin, true).solve();
    if (!nearest) {
      basis_ = all();
      return false;
    }
    basis_ = std::move(nearest->columns);
    if (!(nearest->distance > 0)) return false;
    for (double& value : nearest->normal) value = std::clamp(value, -1.0, 1.0);
    return witnesses(std::move(nearest->normal), result);
  }

  /// The exact program, on the columns that the one in double ended with, then on all.
  void combine(HullPoint& result) const {
    const Integers origin(points_.values.cols);
    for (const Indices& which : {basis_, all()}) {
      const OwnedMatrix<mpz_class> columns = exact_columns(which);
      const auto nearest = Simplex<mpz_class>(columns.view(), origin, true).solve();
      if (sgn(nearest->distance) == 0) {
        for (std::size_t c = 0; c < nearest->columns.size(); ++c) {
          if (sgn(nearest->weights[c]) == 0) continue;
          mpq_class weight(nearest->weights[c], nearest->denominator);
          weight.canonicalize();
          const std::size_t point = others_[which[nearest->columns[c]]];
          result.combination.push_back({point, weight.get_d(), weight.get_str()});
        }
        std::sort(result.combination.begin(), result.combination.end(),
                  [](const HullWeight& a, const HullWeight& b) { return a.point < b.point; });
        return;
      }
      if (take_exact_witness(*nearest, result)) return;
    }
  }

  /// Rounded to doubles where these still are a witness.
  bool take_exact_witness(const Nearest<mpz_class>& nearest, HullPoint& result) const {
    const mpz_class margin = margin_of(nearest.normal);
    if (sgn(margin) <= 0) return false;
    HullQuery query = query_of(nearest.normal, nearest.denominator);
    if (witnesses(query.values, result)) return true;
    mpq_class length(margin, nearest.denominator);
    length >>= static_cast<unsigned long>(points_.bits);
    result.vertex = true;
    result.witness = std::move(query);
    result.margin = length.get_d();
    return true;
  }

  /// Adds up queries that have the point among their maxima, until all others that any of them can leave
  /// behind are left behind. What is left lies on the smallest face that the point lies on.
  void support(HullPoint& result) const {
    Indices level = all();
    Integers query(points_.values.cols);
    while (!level.empty()) {
      std::optional<Integers> next = lower_some(level);
      if (!next) break;
      for (std::size_t i = 0; i < query.size(); ++i) query[i] += (*next)[i];
      level.erase(std::remove_if(level.begin(), level.end(),
                                 [&](std::size_t other) { return sgn(beyond(*next, other)) < 0; }),
                  level.end());
    }
    if (level.size() == others_.size()) return;
    result.support = query_of(query, range_of(query));
    for (const std::size_t other : level) result.ties.push_back(others_[other]);
  }

  /// q with q.x <= q.p for all others, below for some of `level`; nullopt where there is none, and so p is a
  /// combination of all of `level` with positive weights. Is the dual of: min |sum mu_x (p - x) + sum over
  /// level (p - x)|_1.
  [[nodiscard]] std::optional<Integers> lower_some(const Indices& level) const {
    for (const Indices& which : {proposed(level), all()}) {
      const OwnedMatrix<mpz_class> columns = exact_columns(which);
      const OwnedMatrix<mpz_class> at_level = exact_columns(level);
      Integers target(points_.values.cols);
      for (std::size_t c = 0; c < level.size(); ++c) {
        for (std::size_t i = 0; i < target.size(); ++i) target[i] -= at_level(c, i);
      }
      auto nearest = Simplex<mpz_class>(columns.view(), target, false).solve();
      if (sgn(nearest->distance) == 0) return std::nullopt;
      if (sgn(margin_of(nearest->normal)) < 0) continue;  // others beat the point
      make_primitive(nearest->normal);
      return std::move(nearest->normal);
    }
    return std::nullopt;  // not reached: on all columns the normal holds
  }

  /// The columns that the same program in double ends with.
  [[nodiscard]] Indices proposed(const Indices& level) const {
    std::vector<double> target(points_.values.cols, 0.0);
    for (const std::size_t other : level) {
      for (std::size_t i = 0; i < target.size(); ++i) {
        target[i] -= from_(other, i) / static_cast<double>(level.size());
      }
    }
    auto nearest = Simplex<double>(std::as_const(from_).view(), target, false).solve();
    return nearest ? std::move(nearest->columns) : all();
  }

  const Points& points_;
  std::size_t index_;
  Indices others_;
  OwnedMatrix<double> from_;  // [others, d]: other minus the point, scaled
  Indices basis_;
};

}  // namespace

std::vector<HullPoint> hull_points(MatrixView<const double> points, Pool& pool) {
  Points shared{points, OwnedMatrix<mpz_class>(points.rows, points.cols), 0};
  for (std::size_t j = 0; j < points.rows; ++j) {
    for (std::size_t i = 0; i < points.cols; ++i) {
      if (!std::isfinite(points(j, i)))
        fail(Status::bad_input, "point {}: component {} is not finite; need numbers", j, i);
    }
    shared.bits = std::max(shared.bits, fraction_bits(points.row(j)));
  }
  for (std::size_t j = 0; j < points.rows; ++j) {
    for (std::size_t i = 0; i < points.cols; ++i) shared.integers(j, i) = scaled(points(j, i), shared.bits);
  }
  std::vector<HullPoint> result(points.rows);
  pool.run(points.rows,
           [&](std::size_t task, std::size_t /*worker*/) { result[task] = Place(shared, task).decide(); });
  return result;
}

}  // namespace attnctl

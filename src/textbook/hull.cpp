#include <algorithm>
#include <charconv>
#include <cmath>
#include <gmpxx.h>
#include <system_error>
#include <type_traits>

#include "base/error.hpp"
#include "formats/json.hpp"
#include "textbook/experiments.hpp"
#include "textbook/parts.hpp"

namespace attnctl::textbook {
constexpr Definition kHullColumns[] = {
    {"key", "", "from 0", "", "number of the key"},
    {"vector", "", "", "", "the key; only the first four components if it has more"},
    {"place", "", "", "", "vertex, boundary or inside of the convex hull, or duplicate of another key"},
    {"reachable", "", "", "", "whether a query of one head can select the key"},
    {"query", "", "", "", "proof for a reachable key: a query that selects it"},
    {"margin", "", "(0, inf)", "", "score of the key minus the highest score of another key, for `query`"},
    {"combination", "", "", "", "proof for an unreachable key: a weighted mean of other keys that equals it"},
    {"tie_query", "", "", "", "query for which an unreachable key shares the highest score, if any"},
    {"ties_with", "", "", "", "the keys with which the key shares the highest score for tie_query"},
    {"axis_heads_lowest", "", "", "", "lowest score of the key in heads that read one coordinate each"},
    {"axis_heads_pick", "", "", "", "whether only this key has the highest axis_heads_lowest"},
};

namespace {

using Rational = mpq_class;
using RationalVector = std::vector<Rational>;
using Indices = std::vector<std::size_t>;

/// The combination sum_j w_j a_j of points a_j that is nearest to a target t in the L1 norm, with a proof
/// that no combination is nearer.
template <typename Scalar>
struct Nearest {
  Indices columns;              // the indices j in the final basis, at most d + 1; all other weights are 0
  std::vector<Scalar> weights;  // one per element of `columns`
  Scalar distance{};
  /// The dual solution y [d], which is the proof: |y_i| <= 1, y a_j <= c for every j, and y t - c = distance.
  /// c is the largest y a_j if the weights must sum to 1, else 0.
  std::vector<Scalar> normal;
};

/// Minimises |sum_j w_j a_j - t|_1 over weights w_j >= 0 by the simplex method on a dense tableau. If
/// `convex` is true, the weights must sum to 1. The tableau has doubles, or exact integers with fraction-free
/// pivots (Edmonds 1967, Bareiss 1968), which are faster than pivots on fractions.
/// docs/architecture.md explains why no library is used. The pivot column is the one with the lowest reduced
/// cost. After many pivots without progress, it is the first column with a negative reduced cost (Bland
/// 1977), so that the exact program always ends.
template <typename Number>
class Simplex {
 public:
  using Scalar = std::conditional_t<std::is_same_v<Number, double>, double, Rational>;

  /// Row j of `columns` [n, d] is a_j, and `target` [d] is t. n must be at least 1 if `convex` is true.
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

  /// Returns the nearest combination; nullopt if rounding errors of doubles prevent a solution. The exact
  /// program always has one.
  [[nodiscard]] std::optional<Nearest<Scalar>> solve() {
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

  /// Fills tableau row i, which belongs to dimension i. If `convex` is true, column 0 is in the basis and the
  /// difference of a_j and a_0 replaces a_j. In row i, the basis has the deviation variable of dimension i
  /// whose sign makes the right side positive or 0.
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

  /// Returns the row whose basis variable is the first to reach 0 when the variable of `column` grows. Of
  /// several rows, returns the one whose variable has the lowest index. Returns nullopt if no variable
  /// reaches 0.
  [[nodiscard]] std::optional<std::size_t> leaving_row(std::size_t column) const {
    std::optional<std::size_t> best;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (sign(cells_(r, column)) <= 0) continue;
      if (best) {
        const Number here = cells_(r, right()) * cells_(*best, column);
        const Number there = cells_(*best, right()) * cells_(r, column);
        if (here > there || (here == there && basis_[r] > basis_[*best])) continue;
      }
      best = r;
    }
    return best;
  }

  /// Pivots on one cell. Exact cells are numerators of fractions with the common denominator denominator_,
  /// which is the last pivot. For doubles, denominator_ is 1.
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

  [[nodiscard]] Scalar value_of(const Number& cell) const { return Scalar(cell) / denominator_; }

  [[nodiscard]] Nearest<Scalar> result() const {
    Nearest<Scalar> nearest;
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
  OwnedMatrix<Number> cells_;  // the last column is the right side, the last row has the reduced costs
  Indices basis_;  // [rows], index of each row's variable: first the n weights, then the d positive
                   // deviations, then the d negative deviations
  Number denominator_{1};
};

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

/// The points as doubles, and exactly as integer multiples of 2^-bits.
struct Points {
  explicit Points(MatrixView<const double> points) : values(points), exact(points.rows, points.cols) {
    for (std::size_t j = 0; j < points.rows; ++j) {
      for (std::size_t i = 0; i < points.cols; ++i) {
        if (!std::isfinite(points(j, i)))
          fail(Status::bad_input, "key {}: component {} is not a finite number", j, i);
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

/// Decides whether one point p of a set is a vertex of the convex hull of the set.
class Decision {
 public:
  Decision(const Points& points, std::size_t index)
      : points_(points),
        index_(index),
        exact_(points.values.rows - 1, points.values.cols),
        scaled_(points.values.rows - 1, points.values.cols) {
    double largest = 0;
    for (std::size_t j = 0; j < points.values.rows; ++j) {
      if (j == index) continue;
      const std::size_t o = others_.size();
      others_.push_back(j);
      all_.push_back(o);
      for (std::size_t i = 0; i < points.values.cols; ++i) {
        exact_(o, i) = points.exact(j, i) - points.exact(index, i);
        scaled_(o, i) = points.values(j, i) - points.values(index, i);
        largest = std::max(largest, std::abs(scaled_(o, i)));
      }
    }
    // The tolerance of the simplex method in double needs differences of the order of 1.
    const int exponent = largest > 0 && std::isfinite(largest) ? -std::ilogb(largest) : 0;
    for (double& value : scaled_.values()) value = std::ldexp(value, exponent);
  }

  [[nodiscard]] HullPoint decide() {
    HullPoint result;
    if (others_.empty()) {
      result.vertex = true;
      result.witness.values.assign(points_.values.cols, 0);
      return result;
    }
    const auto point = points_.values.row(index_);
    const auto twin = std::ranges::find_if(
        others_, [&](std::size_t other) { return std::ranges::equal(point, points_.values.row(other)); });
    if (twin != others_.end()) {
      result.twin = *twin;
      result.combination = {{*twin, 1, "1"}};
    } else {
      separate_or_combine(result);
    }
    if (!result.vertex) find_support(result);
    return result;
  }

 private:
  /// Returns the combination of the differences x - p (the rows `which` of exact_) with weights of at least 0
  /// that is nearest to `target` in the L1 norm, computed exactly. If `convex` is true, the weights sum to 1.
  [[nodiscard]] Nearest<Rational> solve(const Indices& which, const std::vector<mpz_class>& target,
                                        bool convex) const {
    OwnedMatrix<mpz_class> columns(which.size(), exact_.cols());
    for (std::size_t c = 0; c < which.size(); ++c)
      std::ranges::copy(exact_.view().row(which[c]), columns.view().row(c).begin());
    return Simplex<mpz_class>(std::as_const(columns).view(), target, convex).solve().value();
  }

  /// Returns the lead q (p - x) of p over x = others_[other] for the query q, in multiples of 2^-bits.
  [[nodiscard]] Rational lead(const RationalVector& query, std::size_t other) const {
    Rational sum;
    for (std::size_t i = 0; i < query.size(); ++i) sum -= query[i] * exact_(other, i);
    return sum;
  }

  /// Returns the smallest lead of p over another point. If positive, the query proves that p is a vertex.
  [[nodiscard]] Rational margin(const RationalVector& query) const {
    Rational least = lead(query, 0);
    for (std::size_t o = 1; o < others_.size(); ++o) least = std::min(least, lead(query, o));
    return least;
  }

  bool accept_witness(const RationalVector& query, HullPoint& result) const {
    Rational least = margin(query);
    if (sgn(least) <= 0) return false;
    least >>= points_.bits;
    result.vertex = true;
    result.witness = query_of(query);
    result.margin = least.get_d();
    return true;
  }

  /// Finds a witness or a convex combination. First solves the linear program in double. If this gives no
  /// witness, solves the exact program with only the columns in the final basis of the solution in double. If
  /// this decides nothing, solves the exact program with all columns.
  void separate_or_combine(HullPoint& result) const {
    const std::vector<double> origin(scaled_.cols());
    auto guess = Simplex<double>(scaled_.view(), origin, true).solve();
    if (guess && guess->distance > 0) {
      for (double& value : guess->normal) value = std::clamp(value, -1.0, 1.0);
      if (accept_witness({guess->normal.begin(), guess->normal.end()}, result)) return;
    }
    const std::vector<mpz_class> exact_origin(exact_.cols());
    for (const Indices& which : {guess ? guess->columns : all_, all_}) {
      const Nearest<Rational> nearest = solve(which, exact_origin, true);
      if (sgn(nearest.distance) == 0) {
        for (std::size_t c = 0; c < nearest.columns.size(); ++c) {
          const Rational& weight = nearest.weights[c];
          if (sgn(weight) == 0) continue;
          result.combination.push_back(
              {others_[which[nearest.columns[c]]], weight.get_d(), weight.get_str()});
        }
        std::ranges::sort(result.combination, {}, &HullWeight::point);
        return;
      }
      const std::vector<double> rounded = query_of(nearest.normal).values;
      if (accept_witness({rounded.begin(), rounded.end()}, result)) return;
      if (accept_witness(nearest.normal, result)) return;
    }
  }

  /// Finds the support of p, a sum of queries that have their maximum at p. A point is tied if each of these
  /// queries gives it the same score as p. Each new query gives at least one tied point a lower score than p.
  /// At the end, the tied points are the other points of the smallest face that contains p.
  void find_support(HullPoint& result) const {
    Indices tied = all_;
    RationalVector query(exact_.cols());
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
      for (Rational& value : query) value /= largest;  // keeps the values within the range of a double
    }
    result.support = query_of(query);
    for (const std::size_t other : tied) result.ties.push_back(others_[other]);
  }

  /// Returns a query q with q x <= q p for all other points x and q x < q p for at least one point of `tied`.
  /// Returns nullopt if none exists; then p is a convex combination in which all points of `tied` have
  /// positive weights. The query is the dual solution of min over w >= 0 of |sum_x w_x (x - p) + sum_{x in
  /// tied} (x - p)|_1.
  [[nodiscard]] std::optional<RationalVector> lower_some(const Indices& tied) const {
    std::vector<mpz_class> target(exact_.cols());
    std::vector<double> guess_target(scaled_.cols());
    for (const std::size_t other : tied) {
      for (std::size_t i = 0; i < target.size(); ++i) {
        target[i] -= exact_(other, i);
        guess_target[i] -= scaled_(other, i) / static_cast<double>(tied.size());
      }
    }
    const auto guess = Simplex<double>(scaled_.view(), guess_target, false).solve();
    for (const Indices& which : {guess ? guess->columns : all_, all_}) {
      Nearest<Rational> nearest = solve(which, target, false);
      if (sgn(nearest.distance) == 0) return std::nullopt;
      if (sgn(margin(nearest.normal)) < 0) continue;  // a point outside `which` has a higher score than p
      make_primitive(nearest.normal);
      return std::move(nearest.normal);
    }
    return std::nullopt;  // unreachable: the solution on all columns is valid
  }

  const Points& points_;
  std::size_t index_;
  Indices others_;                // indices of the other points x
  Indices all_;                   // the indices of others_: 0, 1, ...
  OwnedMatrix<mpz_class> exact_;  // [others, d], x - p in multiples of 2^-bits
  OwnedMatrix<double> scaled_;    // [others, d], x - p, rounded and scaled to about 1
};

std::string place_of(const HullPoint& key) {
  if (key.vertex) return "vertex";
  if (key.twin) return "duplicate";
  return key.support.values.empty() ? "inside" : "boundary";
}

/// Joins the texts of the first `most` items. If there are more items, the text ends with "... N in all".
template <typename T, typename Text>
std::string join_first(std::size_t most, std::span<const T> items, const char* between, const Text& text) {
  const std::string joined = join_texts(items.first(std::min(items.size(), most)), text, between);
  return items.size() > most ? joined + fmt::format("{}... {} in all", between, items.size()) : joined;
}

/// Formats the first four elements of a vector: "(10, 0)".
std::string text_of(std::span<const double> vector) {
  return "(" + join_first(4, vector, ", ", [](double value) { return fmt::format("{:.6g}", value); }) + ")";
}

Cell text_of(const HullQuery& query) {
  return query.values.empty() ? Cell() : text_of(std::span<const double>(query.values));
}

/// Formats the first four terms of a convex combination: "1/2 [0] + 1/2 [1]".
Cell text_of(const std::vector<HullWeight>& combination) {
  constexpr std::size_t longest = 9;  // characters; longer fractions are shown as decimals
  if (combination.empty()) return {};
  return join_first(4, std::span(combination), " + ", [](const HullWeight& part) {
    const auto& [point, weight, exact] = part;
    const std::string factor = exact.size() <= longest ? exact : fmt::format("{:.6g}", weight);
    return exact == "1" ? fmt::format("[{}]", point) : fmt::format("{} [{}]", factor, point);
  });
}

Cell text_of(const std::vector<std::size_t>& keys) {
  if (keys.empty()) return {};
  return join_first(8, std::span(keys), " ", [](std::size_t key) { return fmt::format("[{}]", key); });
}

Value record_of(const HullQuery& query) {
  if (query.values.empty()) return {};
  Record record;
  record.set("values", make_tensor({query.values.size()}, query.values));
  if (!query.exact.empty()) record.set("exact", query.exact);
  return record;
}

Value record_of(const std::vector<HullWeight>& combination) {
  if (combination.empty()) return {};
  List parts;
  for (const HullWeight& part : combination)
    parts.emplace_back(Record{{{"key", part.point}, {"weight", part.weight}, {"exact", part.exact}}});
  return parts;
}

void draw_plane(MatrixView<const double> keys, const std::vector<HullPoint>& places,
                ExperimentResult& result) {
  CellRows rows;
  for (std::size_t j = 0; j < keys.rows; ++j) {
    const Cell y = keys(j, 1);
    rows.push_back(
        {text_of(keys.row(j)), keys(j, 0), places[j].vertex ? y : Cell(), places[j].vertex ? Cell() : y});
  }
  result.drawn = make_table("keys", {"key", "x", "reachable", "unreachable"}, std::move(rows));
  result.charts = {{.title = "Keys that one head can select",
                    .x = "x",
                    .y = {"reachable", "unreachable"},
                    .x_axis = "First component",
                    .y_axis = "Second component",
                    .points = true,
                    .labels = "key",
                    .outline = true}};
}

OwnedMatrix<double> matrix_of(const std::vector<std::vector<double>>& rows, Status status,
                              const std::string& source) {
  OwnedMatrix<double> keys(rows.size(), rows.empty() ? 0 : rows.front().size());
  for (std::size_t j = 0; j < rows.size(); ++j) {
    if (rows[j].size() != keys.cols()) {
      fail(status, "{}: key {} has size {}, key 0 has size {}; all keys need the same size", source, j,
           rows[j].size(), keys.cols());
    }
    std::copy(rows[j].begin(), rows[j].end(), keys.view().row(j).begin());
  }
  return keys;
}

double parse_component(std::string_view text, const std::string& name) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) {
    fail(Status::usage, "{}: got '{}', need numbers such as \"10,0;0,10\", or a .npy or .json file", name,
         escaped(text));
  }
  return value;
}

}  // namespace

OwnedMatrix<double> parse_keys(std::string_view text, const std::string& name) {
  std::vector<std::vector<double>> rows;
  for (const std::string_view row : split(text, ';')) {
    rows.emplace_back();
    for (const std::string_view component : split(row, ','))
      rows.back().push_back(parse_component(component, name));
  }
  return matrix_of(rows, Status::usage, name);
}

OwnedMatrix<double> parse_json_keys(const std::string& document, const std::string& name) {
  const nlohmann::ordered_json tree = formats::parse_json(name, document);
  std::vector<std::vector<double>> rows;
  const auto refuse = [&](const std::string& place) {
    fail(Status::bad_input, "{}: {}: wrong type; the file must be an array of arrays of numbers", name,
         place);
  };
  if (!tree.is_array()) refuse("/");
  for (const auto& row : tree) {
    if (!row.is_array()) refuse(fmt::format("/{}", rows.size()));
    std::vector<double>& key = rows.emplace_back();
    for (const auto& value : row) {
      if (!value.is_number()) refuse(fmt::format("/{}/{}", rows.size() - 1, key.size()));
      key.push_back(value.get<double>());
    }
  }
  return matrix_of(rows, Status::bad_input, name);
}

std::vector<HullPoint> hull_points(MatrixView<const double> points, Pool& pool) {
  const Points shared(points);
  std::vector<HullPoint> result(points.rows);
  pool.run(points.rows,
           [&](std::size_t task, std::size_t /*worker*/) { result[task] = Decision(shared, task).decide(); });
  return result;
}

ExperimentResult hull_experiment(MatrixView<const double> keys, Pool& pool) {
  if (keys.empty())
    fail(Status::bad_input, "--keys: got no keys; need at least one key with at least one component");
  const std::vector<HullPoint> places = hull_points(keys, pool);
  // A construction with one head per coordinate: head i scores a key with the key's coordinate i. `lowest`
  // has the lowest score of each key over the heads. `picked` is the key whose lowest score is higher than
  // that of all other keys, or nullopt if there is none.
  std::vector<double> lowest;
  for (std::size_t j = 0; j < keys.rows; ++j) lowest.push_back(std::ranges::min(keys.row(j)));
  const auto best = std::ranges::max_element(lowest);
  std::optional<std::size_t> picked;
  if (std::ranges::count(lowest, *best) == 1) picked = static_cast<std::size_t>(best - lowest.begin());
  ExperimentResult result{.name = "hull", .x = "key", .x_axis = "Key"};
  result.parameters.set("keys", array_of(keys));
  if (keys.cols == 2) {
    draw_plane(keys, places, result);
  } else {
    result.add_chart("Largest margin of a key over all others", {"margin"}, "Margin", Drawing::bars);
  }
  const auto count = [&](const char* place) {
    return static_cast<std::size_t>(std::ranges::count(places, place, place_of));
  };
  CellRows rows;
  List proofs;  // complete, unlike the texts of the rows
  for (std::size_t j = 0; j < keys.rows; ++j) {
    const HullPoint& key = places[j];
    rows.push_back({count_cell(j), text_of(keys.row(j)), place_of(key), key.vertex, text_of(key.witness),
                    cell_of(key.margin), text_of(key.combination), text_of(key.support), text_of(key.ties),
                    lowest[j], picked == j});
    proofs.emplace_back(Record{{{"key", j},
                                {"place", place_of(key)},
                                {"reachable", key.vertex},
                                {"query", record_of(key.witness)},
                                {"margin", cell_of(key.margin)},
                                {"duplicate_of", key.twin},
                                {"combination", record_of(key.combination)},
                                {"tie_query", record_of(key.support)},
                                {"ties_with", key.ties}}});
  }
  result.rows = make_table("rows", {std::begin(kHullColumns), std::end(kHullColumns)}, std::move(rows));
  result.conclusion =
      fmt::format("One head can select {} of the {}.", count("vertex"), counted(keys.rows, "key"));
  result.summary.set("reachable", count("vertex"))
      .set("duplicates", count("duplicate"))
      .set("on_the_boundary", count("boundary"))
      .set("inside", count("inside"))
      .set("axis_heads", keys.cols)
      .set("axis_heads_pick", picked)
      .set("keys", std::move(proofs));
  return result;
}

}  // namespace attnctl::textbook

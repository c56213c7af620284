#include "analysis/similarity/subspace_similarity.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "analysis/weights/slice_products.hpp"
#include "base/undefined.hpp"

namespace attnctl {
namespace {

/// Checks whether float32 products give the cosine to six decimals. Rounding changes the cosine by up to
/// about 8 eps(float32) times the cancellation of both heads divided by the width, and by a hundredth of
/// that for dissimilar heads. For trained and random heads, the product of the cancellations is at most
/// about the width. Narrow slices average out fewer errors, and double is cheap for them.
bool serves_in_place(const ComparedHead& a, const ComparedHead& b) {
  constexpr std::size_t narrow = 32;
  const auto same_kind = [](const CircuitFactor& x, const CircuitFactor& y) {
    return x.in_place() && y.in_place() && x.by_rows() == y.by_rows();
  };
  const std::size_t width = a.factors->left.width();
  return width >= narrow && a.cancellation * b.cancellation <= 2 * static_cast<double>(width) &&
         same_kind(a.factors->left, b.factors->left) && same_kind(a.factors->right, b.factors->right);
}

/// The comparison buffers of one worker.
struct Comparer {
  BlockProduct block;
  PairProduct pair;
};

bool has_norm(const ComparedHead& head) {
  return std::isfinite(head.norm) && head.norm > 0;
}

/// Returns the cosine, or NaN if the sum overflowed. Clamps values that rounding moved past 1.
double cosine_of(double inner, const ComparedHead& a, const ComparedHead& b) {
  const double cosine = inner / a.norm / b.norm;
  return std::isfinite(cosine) ? std::clamp(cosine, -1.0, 1.0) : std::numeric_limits<double>::quiet_NaN();
}

/// All pairs of two ranges of heads of a set.
struct Rectangle {
  std::size_t set;
  std::size_t row, rows, col, cols;
};

/// The pairs of a set, divided into rectangles. They are small enough to share among the workers and
/// otherwise as large as possible, because products of several slices are faster.
class Division {
 public:
  void add_triangle(std::size_t set, std::size_t first, std::size_t count) {
    if (count < 2) return;
    const std::size_t half = count / 2;
    add({set, first, half, first + half, count - half});
    add_triangle(set, first, half);
    add_triangle(set, first + half, count - half);
  }
  [[nodiscard]] std::span<const Rectangle> parts() const { return parts_; }

 private:
  void add(const Rectangle& whole) {
    constexpr std::size_t most = 4;
    const std::size_t down = (whole.rows + most - 1) / most;
    const std::size_t across = (whole.cols + most - 1) / most;
    for (std::size_t i = 0; i < down; ++i) {
      for (std::size_t j = 0; j < across; ++j) {
        const std::size_t row = i * whole.rows / down;
        const std::size_t col = j * whole.cols / across;
        parts_.push_back({whole.set, whole.row + row, (i + 1) * whole.rows / down - row, whole.col + col,
                          (j + 1) * whole.cols / across - col});
      }
    }
  }

  std::vector<Rectangle> parts_;
};

/// Calls use(i, j, cosine) for each pair of a row and a column.
template <typename Use>
void compare(std::span<const ComparedHead> rows, std::span<const ComparedHead> cols, Comparer& comparer,
             const Use& use) {
  bool multiplied = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < cols.size(); ++j) {
      if (!serves_in_place(rows[i], cols[j])) {
        use(i, j, cosine_of(comparer.pair.inner(rows[i], cols[j]), rows[i], cols[j]));
        continue;
      }
      if (!std::exchange(multiplied, true)) comparer.block.multiply(rows, cols);
      use(i, j, cosine_of(comparer.block.inner(i, j), rows[i], cols[j]));
    }
  }
}

/// The heads of a set that have a norm, and their indices in the set.
struct Defined {
  std::vector<ComparedHead> heads;
  std::vector<std::size_t> place;
};

Defined defined_of(std::span<const ComparedHead> set) {
  Defined defined;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!has_norm(set[i])) continue;
    defined.heads.push_back(set[i]);
    defined.place.push_back(i);
  }
  return defined;
}

}  // namespace

double circuit_mass(MatrixView<const double> left_columns, MatrixView<const double> right_columns) {
  constexpr double smallest = 0x1p-40;
  constexpr double largest = 0x1p40;
  double mass = 0;
  for (std::size_t c = 0; c < left_columns.rows; ++c) {
    double product = 1;
    for (const auto column : {left_columns.row(c), right_columns.row(c)}) {
      const double norm = std::sqrt(std::transform_reduce(column.begin(), column.end(), 0.0, std::plus<>(),
                                                          [](double value) { return value * value; }));
      if (norm != 0 && !(norm >= smallest && norm <= largest)) return std::numeric_limits<double>::infinity();
      product *= norm;
    }
    mass += product;
  }
  return mass;
}

std::vector<OwnedMatrix<double>> frobenius_cosines(std::span<const std::vector<ComparedHead>> sets,
                                                   Pool& pool) {
  std::vector<OwnedMatrix<double>> similarities;
  std::vector<Defined> defined;
  Division division;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    defined.push_back(defined_of(sets[i]));
    division.add_triangle(i, 0, defined[i].heads.size());
    OwnedMatrix<double>& similarity = similarities.emplace_back(sets[i].size(), sets[i].size());
    std::ranges::fill(similarity.values(), kUndefined);
    for (const std::size_t place : defined[i].place) similarity(place, place) = 1;
  }
  std::vector<Comparer> comparers(pool.size());
  pool.run(division.parts().size(), [&](std::size_t task, std::size_t worker) {
    const Rectangle& part = division.parts()[task];
    const Defined& set = defined[part.set];
    const std::span<const ComparedHead> heads = set.heads;
    compare(heads.subspan(part.row, part.rows), heads.subspan(part.col, part.cols), comparers[worker],
            [&](std::size_t i, std::size_t j, double cosine) {
              const std::size_t row = set.place[part.row + i];
              const std::size_t col = set.place[part.col + j];
              similarities[part.set](row, col) = cosine;
              similarities[part.set](col, row) = cosine;
            });
  });
  return similarities;
}

OffDiagonal off_diagonal(MatrixView<const double> similarity) {
  double sum = 0;
  double sum_abs = 0;
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < similarity.rows; ++i) {
    for (std::size_t j = 0; j < similarity.cols; ++j) {
      if (i == j || !std::isfinite(similarity(i, j))) continue;
      sum += similarity(i, j);
      sum_abs += std::abs(similarity(i, j));
      ++pairs;
    }
  }
  if (pairs == 0) return {};
  return {sum / static_cast<double>(pairs), sum_abs / static_cast<double>(pairs)};
}

}  // namespace attnctl

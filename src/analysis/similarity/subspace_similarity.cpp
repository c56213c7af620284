#include "analysis/similarity/subspace_similarity.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "base/numbers.hpp"
#include "linalg/gemm.hpp"

namespace attnctl::analysis {
namespace {

// PairProduct and BlockProduct compute inner products <A, B> = sum((L_a^T L_b) o (R_a^T R_b)) of the circuits
// A = L_a R_a^T and B = L_b R_b^T of two heads (o: element-wise product). The factors L and R of one head are
// slices of the weights of its layer (see CircuitFactor). Each worker has its own objects.

/// The slice of one head in a circuit factor. Heads that share weights have equal slices.
struct FactorSlice {
  const CircuitFactor* factor = nullptr;
  std::size_t head = 0;

  [[nodiscard]] std::size_t number() const { return factor->slice_of(head); }
  bool operator==(const FactorSlice& other) const {
    return factor == other.factor && (factor == nullptr || number() == other.number());
  }
  [[nodiscard]] bool follows(const FactorSlice& other) const {
    return factor == other.factor && number() == other.number() + 1;
  }
};

/// Returns the sum of a[i] * b[i], computed in double.
template <typename T>
double sum_of_products(std::span<T> a, std::span<T> b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                               [](T x, T y) { return static_cast<double>(x) * static_cast<double>(y); });
}

/// Computes inner products in double, one pair at a time.
class PairProduct {
 public:
  double inner(const ComparedHead& a, const ComparedHead& b) {
    left_.multiply({&a.factors->left, a.head}, {&b.factors->left, b.head});
    right_.multiply({&a.factors->right, a.head}, {&b.factors->right, b.head});
    return sum_of_products(std::as_const(left_.product).values(), std::as_const(right_.product).values());
  }

 private:
  /// A transposed slice in double. If `values` already is the wanted slice, read() does not convert it again.
  struct Columns {
    FactorSlice slice;
    OwnedMatrix<double> values;

    MatrixView<const double> read(const FactorSlice& wanted) {
      if (wanted != slice) wanted.factor->read_columns(wanted.head, values);
      slice = wanted;
      return values.view();
    }
  };
  struct PairSide {
    Columns a, b;
    OwnedMatrix<double> product;  // [width of a, width of b]

    void multiply(const FactorSlice& first, const FactorSlice& second) {
      const MatrixView<const double> left = a.read(first);
      const MatrixView<const double> right = b.read(second);
      if (product.rows() != left.rows || product.cols() != right.rows)
        product = OwnedMatrix<double>(left.rows, right.rows);
      linalg::gemm_nt(left, right, product.view());
    }
  };
  PairSide left_, right_;
};

/// Slices of a block that are adjacent in the stored weights.
struct SliceRun {
  FactorSlice first;
  std::size_t count = 0;
  std::size_t begin = 0;  // offset of the first slice in the rows or columns of the product

  [[nodiscard]] MatrixView<const float> stored() const { return first.factor->stored(first.head, count); }
  [[nodiscard]] std::size_t width() const { return count * first.factor->width(); }
};

/// The left or the right factors of a block of heads. Adjacent heads with the same slice share it.
struct BlockSlices {
  std::vector<SliceRun> runs;
  std::vector<std::size_t> begin;  // [heads]: offset of the slice of each head in the product
  std::size_t width = 0;           // total width of the slices

  BlockSlices() = default;
  BlockSlices(std::span<const ComparedHead> heads, CircuitFactor CircuitFactors::*side) {
    FactorSlice last;
    for (const ComparedHead& head : heads) {
      const FactorSlice slice{&(head.factors->*side), head.head};
      if (slice == last) {
        begin.push_back(begin.back());
        continue;
      }
      if (slice.follows(last)) {
        ++runs.back().count;
      } else {
        runs.push_back({slice, 1, width});
      }
      begin.push_back(width);
      width += slice.factor->width();
      last = slice;
    }
  }
};

/// Computes the inner products of all pairs of two blocks of heads. Uses the stored weights without a copy,
/// in float32. Adjacent slices are multiplied in one product. Ignores gains. Slices that are stored in
/// different orientations are not multiplied, so their inner() is meaningless (see serves_in_place).
class BlockProduct {
 public:
  void multiply(std::span<const ComparedHead> rows, std::span<const ComparedHead> cols) {
    width_ = rows[0].factors->left.width();
    left_.multiply({rows, &CircuitFactors::left}, {cols, &CircuitFactors::left});
    right_.multiply({rows, &CircuitFactors::right}, {cols, &CircuitFactors::right});
  }
  /// Returns <A, B> of head i of `rows` (circuit A) and head j of `cols` (circuit B). Sums in double.
  [[nodiscard]] double inner(std::size_t i, std::size_t j) const {
    const auto part = [&](const BlockSide& side) {
      return side.product.row_range(side.rows.begin[i], width_).col_range(side.cols.begin[j], width_);
    };
    const MatrixView<const float> left = part(left_);
    const MatrixView<const float> right = part(right_);
    double sum = 0;
    for (std::size_t r = 0; r < width_; ++r) sum += sum_of_products(left.row(r), right.row(r));
    return sum;
  }

 private:
  struct BlockSide {
    BlockSlices rows, cols;
    std::vector<float> values;
    MatrixView<float> product = {};  // view of `values`, [width of rows, width of cols]

    void multiply(BlockSlices of_rows, BlockSlices of_cols) {
      rows = std::move(of_rows);
      cols = std::move(of_cols);
      values.resize(std::max(values.size(), rows.width * cols.width));
      product = {values.data(), rows.width, cols.width};
      for (const SliceRun& row : rows.runs) {
        for (const SliceRun& col : cols.runs) {
          const bool by_rows = row.first.factor->by_rows();
          if (by_rows != col.first.factor->by_rows()) continue;
          const MatrixView<float> part =
              product.row_range(row.begin, row.width()).col_range(col.begin, col.width());
          if (by_rows) {
            linalg::gemm_nt(row.stored(), col.stored(), part);
          } else {
            linalg::gemm_tn(row.stored(), col.stored(), part);
          }
        }
      }
    }
  };
  BlockSide left_, right_;
  std::size_t width_ = 0;  // width of one slice
};

/// Returns whether BlockProduct can compare a and b so that six decimals of the cosine are correct. Rounding
/// to float32 changes the cosine by up to about 8 eps(float32) times the product of the two cancellations,
/// divided by the width. If the width is small, fewer errors average out, and products in double cost little.
bool serves_in_place(const ComparedHead& a, const ComparedHead& b) {
  constexpr std::size_t narrow = 32;
  const auto same_kind = [](const CircuitFactor& x, const CircuitFactor& y) {
    return x.in_place() && y.in_place() && x.by_rows() == y.by_rows();
  };
  const std::size_t width = a.factors->left.width();
  return width >= narrow && a.cancellation * b.cancellation <= 2 * static_cast<double>(width) &&
         same_kind(a.factors->left, b.factors->left) && same_kind(a.factors->right, b.factors->right);
}

/// The pairs of two ranges of heads of one set.
struct Rectangle {
  std::size_t set;
  std::size_t row, rows, col, cols;
};

/// Appends all pairs of different heads in [first, first + count) of a set, in rectangles of up to 4 x 4
/// heads. Products of several heads are fast, but larger rectangles could leave workers without tasks.
void add_rectangles(std::size_t set, std::size_t first, std::size_t count,
                    std::vector<Rectangle>& rectangles) {
  if (count < 2) return;
  constexpr std::size_t most = 4;
  const std::size_t rows = count / 2;
  const std::size_t cols = count - rows;
  const std::size_t down = (rows + most - 1) / most;
  const std::size_t across = (cols + most - 1) / most;
  for (std::size_t i = 0; i < down; ++i) {
    for (std::size_t j = 0; j < across; ++j) {
      const std::size_t row = i * rows / down;
      const std::size_t col = j * cols / across;
      rectangles.push_back(
          {set, first + row, (i + 1) * rows / down - row, first + rows + col, (j + 1) * cols / across - col});
    }
  }
  add_rectangles(set, first, rows, rectangles);
  add_rectangles(set, first + rows, cols, rectangles);
}

/// The buffers with which one worker compares heads.
struct Comparer {
  BlockProduct block;
  PairProduct pair;
};

/// The heads of a set whose norm is finite and not 0.
struct Defined {
  std::vector<ComparedHead> heads;
  std::vector<std::size_t> place;  // [heads]: index in the set
};

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
  std::vector<Rectangle> rectangles;
  for (const std::vector<ComparedHead>& set : sets) {
    Defined& of_set = defined.emplace_back();
    OwnedMatrix<double>& similarity = similarities.emplace_back(set.size(), set.size());
    std::ranges::fill(similarity.values(), kUndefined);
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (!std::isfinite(set[i].norm) || set[i].norm <= 0) continue;
      of_set.heads.push_back(set[i]);
      of_set.place.push_back(i);
      similarity(i, i) = 1;
    }
    add_rectangles(defined.size() - 1, 0, of_set.heads.size(), rectangles);
  }
  std::vector<Comparer> comparers(pool.size());
  pool.run(rectangles.size(), [&](std::size_t task, std::size_t worker) {
    const Rectangle& part = rectangles[task];
    const Defined& set = defined[part.set];
    const auto rows = std::span(set.heads).subspan(part.row, part.rows);
    const auto cols = std::span(set.heads).subspan(part.col, part.cols);
    OwnedMatrix<double>& similarity = similarities[part.set];
    auto& [block, pair] = comparers[worker];
    bool multiplied = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < cols.size(); ++j) {
        const bool in_place = serves_in_place(rows[i], cols[j]);
        if (in_place && !std::exchange(multiplied, true)) block.multiply(rows, cols);
        const double inner = in_place ? block.inner(i, j) : pair.inner(rows[i], cols[j]);
        const double cosine = inner / rows[i].norm / cols[j].norm;  // not finite if `inner` overflowed
        constexpr double overflowed = std::numeric_limits<double>::quiet_NaN();
        const std::size_t row = set.place[part.row + i];
        const std::size_t col = set.place[part.col + j];
        similarity(row, col) = similarity(col, row) =
            std::isfinite(cosine) ? std::clamp(cosine, -1.0, 1.0) : overflowed;
      }
    }
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

}  // namespace attnctl::analysis

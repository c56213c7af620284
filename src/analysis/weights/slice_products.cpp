#include "analysis/weights/slice_products.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "linalg/gemm.hpp"

namespace attnctl {
namespace {

OwnedMatrix<double>& shaped(OwnedMatrix<double>& matrix, std::size_t rows, std::size_t cols) {
  if (matrix.rows() != rows || matrix.cols() != cols) matrix = OwnedMatrix<double>(rows, cols);
  return matrix;
}

/// Returns sum(a o b), computed in double.
template <typename T>
double sum_of_products(std::span<T> a, std::span<T> b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                               [](T x, T y) { return static_cast<double>(x) * static_cast<double>(y); });
}

}  // namespace

MatrixView<const double> PairProduct::Columns::read(const Slice& wanted) {
  if (wanted != slice) {
    const CircuitFactor& factor = *wanted.factor;
    factor.read_columns(wanted.head, shaped(values, factor.width(), factor.dimension()).view());
    slice = wanted;
  }
  return std::as_const(values).view();
}

void PairProduct::Side::multiply(const Slice& first, const Slice& second) {
  gemm_nt(a.read(first), b.read(second),
          shaped(product, first.factor->width(), second.factor->width()).view());
}

double PairProduct::inner(const ComparedHead& a, const ComparedHead& b) {
  left_.multiply({&a.factors->left, a.head}, {&b.factors->left, b.head});
  right_.multiply({&a.factors->right, a.head}, {&b.factors->right, b.head});
  return sum_of_products(std::as_const(left_.product).values(), std::as_const(right_.product).values());
}

BlockProduct::Slices::Slices(std::span<const ComparedHead> heads, CircuitFactor CircuitFactors::*side) {
  Slice last;
  for (const ComparedHead& head : heads) {
    const Slice slice{&(head.factors->*side), head.head};
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

void BlockProduct::Side::multiply() {
  values.resize(std::max(values.size(), rows.width * cols.width));
  for (const Run& row : rows.runs) {
    const CircuitFactor& row_factor = *row.first.factor;
    const MatrixView<const float> a = row_factor.stored(row.first.head, row.count);
    for (const Run& col : cols.runs) {
      const CircuitFactor& col_factor = *col.first.factor;
      if (row_factor.by_rows() != col_factor.by_rows()) continue;
      const MatrixView<const float> b = col_factor.stored(col.first.head, col.count);
      const MatrixView<float> part = product()
                                         .row_range(row.begin, row.count * row_factor.width())
                                         .col_range(col.begin, col.count * col_factor.width());
      if (row_factor.by_rows()) {
        gemm_nt(a, b, part);
      } else {
        gemm_tn(a, b, part);
      }
    }
  }
}

void BlockProduct::multiply(std::span<const ComparedHead> rows, std::span<const ComparedHead> cols) {
  width_ = rows[0].factors->left.width();
  left_.rows = Slices(rows, &CircuitFactors::left);
  left_.cols = Slices(cols, &CircuitFactors::left);
  right_.rows = Slices(rows, &CircuitFactors::right);
  right_.cols = Slices(cols, &CircuitFactors::right);
  left_.multiply();
  right_.multiply();
}

double BlockProduct::inner(std::size_t i, std::size_t j) const {
  const auto part = [&](const Side& side) {
    return side.product().row_range(side.rows.begin[i], width_).col_range(side.cols.begin[j], width_);
  };
  const MatrixView<const float> left = part(left_);
  const MatrixView<const float> right = part(right_);
  double sum = 0;
  for (std::size_t r = 0; r < width_; ++r) sum += sum_of_products(left.row(r), right.row(r));
  return sum;
}

}  // namespace attnctl

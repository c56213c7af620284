#include "linalg/decompositions.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>
#include <xtensor-blas/xlinalg.hpp>

#include "base/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"
#include "linalg/matrix.hpp"

namespace attnctl::linalg {
namespace {

using ColumnMajor = xt::xtensor<double, 2, xt::layout_type::column_major>;

ColumnMajor column_major(MatrixView<const double> a) {
  ColumnMajor copy = ColumnMajor::from_shape({a.rows, a.cols});
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < a.cols; ++c) copy(r, c) = a(r, c);
  }
  return copy;
}

void require_finite(MatrixView<const double> a) {
  for (std::size_t r = 0; r < a.rows; ++r) {
    if (all_finite(a.row(r))) continue;
    fail(Status::non_finite,
         "cannot decompose a matrix: its row {} contains NaN or infinity; check the checkpoint for such "
         "weights",
         r);
  }
}

void require_success(int info, const char* routine) {
  if (info != 0) throw std::runtime_error(fmt::format("LAPACK {} failed with info = {}", routine, info));
}

// LAPACK routines that xtensor-blas does not declare. Matrices are column-major. All arguments are passed by
// address, except the lengths of strings, which are the last arguments.

/// Computes the QR decomposition of a [m, n] in blocks of nb columns, in place. R replaces the upper
/// triangle, and the reflectors replace the rest. t [nb, min(m, n)] receives the factors of the reflectors.
/// work has nb * n elements.
using Dgeqrt = void(const int& m, const int& n, const int& nb, double* a, const int& lda, double* t,
                    const int& ldt, double* work, int& info);

/// Computes c [m, n] = Q c (trans 'N') or Q^T c (trans 'T') with side 'L'. Q is given by the k reflectors
/// that dgeqrt computed. work has nb * n elements.
using Dgemqrt = void(const char& side, const char& trans, const int& m, const int& n, const int& k,
                     const int& nb, const double* v, const int& ldv, const double* t, const int& ldt,
                     double* c, const int& ldc, double* work, int& info, std::size_t side_length,
                     std::size_t trans_length);

/// The QR decomposition of a matrix a [m, k], computed in place in a^T. If m <= k, R = a and Q = I.
class Qr {
 public:
  explicit Qr(MatrixView<double> columns) : columns_(columns) {
    if (!tall()) return;
    factors_.resize(block() * columns.rows);
    std::vector<double> work(block() * columns.rows);
    const int nb = blas_int(block());
    int info = 0;
    reinterpret_cast<Dgeqrt*>(blas_function("dgeqrt_"))(blas_int(columns.cols), blas_int(columns.rows), nb,
                                                        columns.data, blas_int(columns.stride),
                                                        factors_.data(), nb, work.data(), info);
    require_success(info, "dgeqrt");
  }

  /// Returns R^T [k, min(m, k)].
  [[nodiscard]] OwnedMatrix<double> r_columns() const {
    OwnedMatrix<double> r(columns_.rows, std::min(columns_.rows, columns_.cols));
    for (std::size_t c = 0; c < r.rows(); ++c)
      std::copy_n(columns_.row(c).begin(), tall() ? c + 1 : r.cols(), r.view().row(c).begin());
    return r;
  }

  /// Replaces each row of `vectors` [count, m] by Q times this row. Before the call, the first min(m, k)
  /// elements of a row are the vector that Q multiplies, and the others are 0.
  void lift(MatrixView<double> vectors) const {
    if (!tall() || vectors.rows == 0) return;
    std::vector<double> work(block() * vectors.rows);
    const int nb = blas_int(block());
    int info = 0;
    reinterpret_cast<Dgemqrt*>(blas_function("dgemqrt_"))(
        'L', 'N', blas_int(columns_.cols), blas_int(vectors.rows), blas_int(columns_.rows), nb, columns_.data,
        blas_int(columns_.stride), factors_.data(), nb, vectors.data, blas_int(vectors.stride), work.data(),
        info, 1, 1);
    require_success(info, "dgemqrt");
  }

 private:
  [[nodiscard]] bool tall() const { return columns_.cols > columns_.rows; }
  /// Returns the number of columns per block. Other numbers from 16 to 64 are about as fast.
  [[nodiscard]] std::size_t block() const { return std::min<std::size_t>(columns_.rows, 32); }

  MatrixView<double> columns_;   // [k, m]
  std::vector<double> factors_;  // [k, block], the factors of the reflectors
};

/// Replaces a symmetric matrix [k, k] by the lower triangle L of its Cholesky decomposition L L^T, and
/// returns the inverse of L; nullopt if the matrix is not positive definite.
std::optional<OwnedMatrix<double>> cholesky(MatrixView<double> a) {
  OwnedMatrix<double> inverse(a.rows, a.rows);
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < r; ++c)
      a(r, c) = (a(r, c) - attnctl::dot(a.row(r).first(c), a.row(c).first(c))) / a(c, c);
    const double square = a(r, r) - attnctl::dot(a.row(r).first(r), a.row(r).first(r));
    if (!(square > 0)) return std::nullopt;
    a(r, r) = std::sqrt(square);
    std::ranges::fill(a.row(r).subspan(r + 1), 0.0);
    // Row r of the inverse: (e_r - sum of L_rc times row c) / L_rr.
    const std::span<double> row = inverse.view().row(r);
    row[r] = 1;
    for (std::size_t c = 0; c < r; ++c) {
      for (std::size_t j = 0; j <= c; ++j) row[j] -= a(r, c) * inverse(c, j);
    }
    for (double& value : row.first(r + 1)) value /= a(r, r);
  }
  return inverse;
}

/// Makes the element of largest magnitude (the first of several) positive: if it is negative, reverses the
/// signs of the vector and of its `partner`. The sign of a singular vector or eigenvector is arbitrary.
void fix_sign(std::span<double> vector, std::span<double> partner = {}) {
  const auto largest = std::ranges::max_element(vector, {}, [](double value) { return std::abs(value); });
  if (largest == vector.end() || *largest >= 0) return;
  for (const std::span<double> each : {vector, partner}) {
    for (double& value : each) value = -value;
  }
}

/// Returns a column-major copy that LAPACK may overwrite. Throws if the matrix is not square or not finite.
ColumnMajor square_copy(MatrixView<const double> a) {
  if (a.rows != a.cols) throw std::logic_error("the matrix of an eigenvalue problem is not square");
  require_finite(a);
  return column_major(a);
}

/// Returns the largest of `values`, which are >= 0; 0 if `values` is empty. nullopt if one is not finite.
std::optional<double> largest_of(std::span<const double> values) {
  double top = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) return std::nullopt;
    top = std::max(top, value);
  }
  return top;
}

}  // namespace

ProductSvd svd_of_product(MatrixView<double> a_columns, MatrixView<double> b_columns, std::size_t vectors) {
  if (a_columns.rows != b_columns.rows)
    throw std::logic_error("svd_of_product: the inner extents of the factors differ");
  require_finite(a_columns);
  require_finite(b_columns);
  ProductSvd result;
  if (a_columns.empty() || b_columns.empty()) return result;

  const Qr a(a_columns);
  const Qr b(b_columns);
  const OwnedMatrix<double> r_a = a.r_columns();
  const OwnedMatrix<double> r_b = b.r_columns();
  ColumnMajor core = ColumnMajor::from_shape({r_a.cols(), r_b.cols()});  // R_a R_b^T
  gemm_tn(r_b.view(), r_a.view(), MatrixView<double>(core.data(), r_b.cols(), r_a.cols()));
  // If vectors > 0: u [rows of R_a, r], s [r], vt [r, rows of R_b]. Otherwise only s.
  const auto [info, u, s, vt] = xt::lapack::gesdd(core, vectors > 0 ? 'S' : 'N');
  require_success(info, "dgesdd");
  result.values.assign(s.begin(), s.end());

  const std::size_t count = std::min(vectors, result.values.size());
  result.left = OwnedMatrix<double>(count, a_columns.cols);
  result.right = OwnedMatrix<double>(count, b_columns.cols);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t r = 0; r < u.shape()[0]; ++r) result.left(i, r) = u(r, i);
    for (std::size_t c = 0; c < vt.shape()[1]; ++c) result.right(i, c) = vt(i, c);
  }
  a.lift(result.left.view());
  b.lift(result.right.view());
  for (std::size_t i = 0; i < count; ++i) fix_sign(result.left.view().row(i), result.right.view().row(i));
  return result;
}

OwnedMatrix<double> triangle_of(MatrixView<double> columns) {
  require_finite(columns);
  if (columns.empty()) return {};
  return Qr(columns).r_columns();
}

std::vector<double> singular_values(MatrixView<const double> a) {
  require_finite(a);
  if (a.empty()) return {};
  const auto s = std::get<1>(xt::linalg::svd(column_major(a), false, false));
  return {s.begin(), s.end()};
}

LeadingValues leading_singular_values(MatrixView<const double> a, std::size_t most) {
  if (std::min(a.rows, a.cols) <= most) return {singular_values(a), 0};
  require_finite(a);
  Random random(0);
  const OwnedMatrix<double> directions = random_matrix(a.cols, most, 1, random);
  OwnedMatrix<double> images(most, a.rows);  // (a directions)^T
  gemm<double>(true, true, directions.view(), a, images.view(), 1, 0);
  OwnedMatrix<double> unit = identity(most);
  const ProductSvd basis = svd_of_product(images.view(), unit.view(), most);
  LeadingValues leading{singular_values(product(basis.left.view(), a).view()), 0};
  double squares = 0;
  for (std::size_t r = 0; r < a.rows; ++r) squares += attnctl::dot(a.row(r), a.row(r));
  leading.rest = std::sqrt(std::max(0.0, squares - attnctl::dot(leading.values, leading.values)));
  return leading;
}

RowFactors row_factors(MatrixView<const double> a, const OwnedMatrix<double>& squares) {
  require_finite(a);
  const std::size_t k = a.rows;
  if (k <= a.cols) {
    OwnedMatrix<double> lower = squares;
    if (auto inverse = cholesky(lower.view())) {
      constexpr double well_conditioned = 1000;
      if (attnctl::norm(lower.values()) * attnctl::norm(inverse->values()) < well_conditioned)
        return {.t = std::move(lower), .inverse = std::move(*inverse), .rank = k};
    }
  }
  OwnedMatrix<double> columns(k, a.cols);
  for (std::size_t r = 0; r < k; ++r) std::ranges::copy(a.row(r), columns.view().row(r).begin());
  OwnedMatrix<double> unit = identity(k);
  ProductSvd svd = svd_of_product(columns.view(), unit.view(), k);  // of a^T
  RowFactors result{.t = OwnedMatrix<double>(k, svd.left.rows()),
                    .u = std::move(svd.left),
                    .rank = numerical_rank(svd.values, k, a.cols).value_or(0)};
  for (std::size_t i = 0; i < svd.right.rows(); ++i) {
    for (std::size_t r = 0; r < k; ++r) result.t(r, i) = svd.right(i, r) * svd.values[i];
  }
  return result;
}

OwnedMatrix<double> row_basis(MatrixView<const double> a, const RowFactors& factors) {
  if (factors.inverse.rows() > 0) return product(factors.inverse.view(), a);
  OwnedMatrix<double> basis(factors.rank, a.cols);
  for (std::size_t r = 0; r < factors.rank; ++r)
    std::ranges::copy(factors.u.view().row(r), basis.view().row(r).begin());
  return basis;
}

namespace {

/// Returns the principal angles between two subspaces from the products of their bases: across [r_b, r_a] = b
/// a^T, whose singular values are the cosines, and outside [r_b, r_b] = c c^T with c = b - across a, whose
/// eigenvalues are the squares of the sines.
std::vector<double> angles_of(MatrixView<const double> across, MatrixView<const double> outside) {
  ColumnMajor copy = column_major(outside);
  Vector values = Vector::from_shape({outside.rows});  // ascending
  require_success(xt::lapack::syevd(copy, 'N', 'L', values), "dsyevd");
  const auto is_large = [](double square) { return square > 0.5; };
  std::vector<double> cosines;
  if (is_large(values(outside.rows - 1))) cosines = singular_values(across);
  std::vector<double> angles;
  for (std::size_t i = 0; i < outside.rows; ++i)
    angles.push_back(is_large(values(i)) ? std::acos(std::min(cosines[i], 1.0))
                                         : std::asin(std::sqrt(std::max(values(i), 0.0))));
  return angles;
}

}  // namespace

std::vector<double> principal_angles(MatrixView<const double> a, MatrixView<const double> b) {
  if (a.cols != b.cols) throw std::logic_error("principal_angles: the subspaces are of different spaces");
  if (a.rows < b.rows) std::swap(a, b);
  if (b.rows == 0) return {};
  const OwnedMatrix<double> across = product_nt(b, a);
  OwnedMatrix<double> outside = product(across.view(), a);
  for (std::size_t r = 0; r < b.rows; ++r) {
    for (std::size_t c = 0; c < b.cols; ++c) outside(r, c) = b(r, c) - outside(r, c);
  }
  return angles_of(across.view(), squares(outside.view()).view());
}

std::vector<double> principal_angles(const RowFactors& a, const RowFactors& b,
                                     MatrixView<const double> difference_a,
                                     MatrixView<const double> difference_squares) {
  if (a.inverse.rows() == 0 || b.inverse.rows() == 0)
    throw std::logic_error("principal_angles: a matrix is ill-conditioned");
  OwnedMatrix<double> across = product_nt(difference_a, a.inverse.view());  // d u_a^T
  const OwnedMatrix<double> inside = squares(across.view());
  OwnedMatrix<double> outside(inside.rows(), inside.cols());
  for (std::size_t i = 0; i < inside.rows(); ++i) {
    for (std::size_t j = 0; j < inside.cols(); ++j) {
      outside(i, j) = difference_squares(i, j) - inside(i, j);
      across(i, j) += a.t(i, j);  // b u_a^T
    }
  }
  const OwnedMatrix<double> half = product(b.inverse.view(), outside.view());
  return angles_of(product(b.inverse.view(), across.view()).view(),
                   product_nt(half.view(), b.inverse.view()).view());
}

std::vector<std::complex<double>> eigenvalues(MatrixView<const double> a) {
  ColumnMajor copy = square_copy(a);
  if (a.empty()) return {};
  Vector real = Vector::from_shape({a.rows});
  Vector imaginary = Vector::from_shape({a.rows});
  ColumnMajor none = ColumnMajor::from_shape({1, 1});
  require_success(xt::lapack::geev(copy, 'N', 'N', real, imaginary, none, none), "dgeev");
  std::vector<std::complex<double>> values;
  for (std::size_t i = 0; i < a.rows; ++i) values.emplace_back(real(i), imaginary(i));
  return values;
}

SymmetricEigen symmetric_eigen(MatrixView<const double> a) {
  ColumnMajor copy = square_copy(a);
  SymmetricEigen result{std::vector<double>(a.rows), OwnedMatrix<double>(a.rows, a.rows)};
  if (a.empty()) return result;
  Vector ascending = Vector::from_shape({a.rows});
  require_success(xt::lapack::syevd(copy, 'V', 'L', ascending), "dsyevd");
  for (std::size_t i = 0; i < a.rows; ++i) {
    const std::size_t from = a.rows - 1 - i;
    result.values[i] = ascending(from);
    for (std::size_t c = 0; c < a.rows; ++c) result.vectors(i, c) = copy(c, from);
    fix_sign(result.vectors.view().row(i));
  }
  return result;
}

std::optional<double> effective_rank(std::span<const double> singular_values) {
  const auto top = largest_of(singular_values);
  if (!top || *top == 0) return std::nullopt;
  // Divides by the largest value so that the sum cannot overflow or underflow.
  double sum = 0;
  for (const double value : singular_values) sum += value / *top;
  double entropy = 0;
  for (const double value : singular_values) {
    const double p = value / *top / sum;
    if (p > 0) entropy -= p * std::log(p);
  }
  return std::exp(entropy);
}

std::optional<double> stable_rank(std::span<const double> singular_values) {
  const auto top = largest_of(singular_values);
  if (!top || *top == 0) return std::nullopt;
  double sum = 0;
  for (const double value : singular_values) sum += (value / *top) * (value / *top);
  return sum;
}

std::optional<std::size_t> numerical_rank(std::span<const double> singular_values, std::size_t rows,
                                          std::size_t cols, double epsilon) {
  const auto top = largest_of(singular_values);
  if (!top) return std::nullopt;
  const double tolerance = static_cast<double>(std::max(rows, cols)) * epsilon * *top;
  return static_cast<std::size_t>(
      std::ranges::count_if(singular_values, [&](double value) { return value > tolerance && value > 0; }));
}

// Functions of linalg/matrix.hpp.

Vector to_vector(std::span<const float> values) {
  Vector copy = Vector::from_shape({values.size()});
  std::copy(values.begin(), values.end(), copy.begin());
  return copy;
}

OwnedMatrix<double> to_owned(const Matrix& values) {
  OwnedMatrix<double> copy(values.shape(0), values.shape(1));
  std::copy(values.begin(), values.end(), copy.values().begin());
  return copy;
}

Matrix dot(const Matrix& a, const Matrix& b) {
  Matrix product = Matrix::from_shape({a.shape(0), b.shape(1)});
  gemm_nn({a.data(), a.shape(0), a.shape(1)}, {b.data(), b.shape(0), b.shape(1)},
          MatrixView<double>(product.data(), product.shape(0), product.shape(1)));
  return product;
}

Matrix row_sum(const Matrix& values) {
  return xt::sum(values, {1}, xt::keep_dims);
}

Matrix row_mean(const Matrix& values) {
  return xt::mean(values, {1}, xt::keep_dims);
}

Matrix row_max(const Matrix& values) {
  return xt::amax(values, {1}, xt::keep_dims);
}

}  // namespace attnctl::linalg

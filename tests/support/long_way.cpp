#include "support/long_way.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attnctl::long_way {

double Normal::operator()() {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

Dense Normal::matrix(std::size_t rows, std::size_t cols, double deviation) {
  Dense result(rows, cols);
  for (double& value : result.values()) value = deviation * (*this)();
  return result;
}

Dense product_nt(const Dense& a, const Dense& b) {
  Dense c(a.rows(), b.rows());
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t j = 0; j < b.rows(); ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < a.cols(); ++k) sum += a(i, k) * b(j, k);
      c(i, j) = sum;
    }
  }
  return c;
}

double cosine(const Dense& a, const Dense& b) {
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    ab += a.values()[i] * b.values()[i];
    aa += a.values()[i] * a.values()[i];
    bb += b.values()[i] * b.values()[i];
  }
  return ab / std::sqrt(aa) / std::sqrt(bb);
}

namespace {

/// Rotates columns p and q until they are orthogonal. Returns the magnitude of their cosine before the
/// rotation.
double orthogonalise(std::vector<std::vector<double>>& columns, std::size_t p, std::size_t q) {
  double pp = 0;
  double qq = 0;
  double pq = 0;
  for (std::size_t i = 0; i < columns[p].size(); ++i) {
    pp += columns[p][i] * columns[p][i];
    qq += columns[q][i] * columns[q][i];
    pq += columns[p][i] * columns[q][i];
  }
  if (pq == 0) return 0;
  const double zeta = (qq - pp) / (2 * pq);
  const double t = (zeta >= 0 ? 1 : -1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
  const double c = 1 / std::sqrt(1 + t * t);
  const double s = c * t;
  for (std::size_t i = 0; i < columns[p].size(); ++i) {
    const double x = columns[p][i];
    const double y = columns[q][i];
    columns[p][i] = c * x - s * y;
    columns[q][i] = s * x + c * y;
  }
  return std::abs(pq) / std::sqrt(pp * qq);
}

}  // namespace

std::vector<double> singular_values(const Dense& a) {
  const bool wide = a.cols() > a.rows();
  const std::size_t count = wide ? a.rows() : a.cols();
  const std::size_t length = wide ? a.cols() : a.rows();
  std::vector<std::vector<double>> columns(count, std::vector<double>(length));
  for (std::size_t c = 0; c < count; ++c) {
    for (std::size_t r = 0; r < length; ++r) columns[c][r] = wide ? a(c, r) : a(r, c);
  }
  for (int sweep = 0; sweep < 60; ++sweep) {
    double worst = 0;
    for (std::size_t p = 0; p < count; ++p) {
      for (std::size_t q = p + 1; q < count; ++q) worst = std::max(worst, orthogonalise(columns, p, q));
    }
    if (worst < 1e-15) break;
  }
  std::vector<double> values;
  for (const auto& column : columns) {
    double sum = 0;
    for (const double x : column) sum += x * x;
    values.push_back(std::sqrt(sum));
  }
  std::sort(values.rbegin(), values.rend());
  return values;
}

double effective_rank(const std::vector<double>& s) {
  double sum = 0;
  for (const double value : s) sum += value;
  double entropy = 0;
  for (const double value : s) {
    if (value > 0) entropy -= value / sum * std::log(value / sum);
  }
  return std::exp(entropy);
}

}  // namespace attnctl::long_way

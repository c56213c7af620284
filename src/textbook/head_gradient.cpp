#include <algorithm>

#include "linalg/gemm.hpp"
#include "textbook/gradients.hpp"
#include "textbook/head_forward.hpp"

namespace attnctl {
namespace {

using experiments::HeadForward;
using experiments::product;

/// Replaces dL/dpattern by dL/dscores: a_ij (g_ij - sum_j a_ij g_ij).
void through_softmax(const OwnedMatrix<double>& pattern, OwnedMatrix<double>& gradient) {
  for (std::size_t i = 0; i < pattern.rows(); ++i) {
    double mean = 0;
    for (std::size_t j = 0; j < pattern.cols(); ++j) mean += pattern(i, j) * gradient(i, j);
    for (std::size_t j = 0; j < pattern.cols(); ++j) gradient(i, j) = pattern(i, j) * (gradient(i, j) - mean);
  }
}

/// Returns scale a^T b.
OwnedMatrix<double> product_tn(const OwnedMatrix<double>& a, const OwnedMatrix<double>& b, double scale = 1) {
  OwnedMatrix<double> c(a.cols(), b.cols());
  gemm_tn(a.view(), b.view(), c.view(), scale);
  return c;
}

/// Returns a b^T.
OwnedMatrix<double> product_nt(MatrixView<const double> a, const OwnedMatrix<double>& b) {
  OwnedMatrix<double> c(a.rows, b.rows());
  gemm_nt(a, b.view(), c.view());
  return c;
}

}  // namespace

HeadGradient head_gradient(const HeadMatrices& head, MatrixView<const double> x,
                           MatrixView<const double> d_output, double scale) {
  HeadForward pass = experiments::head_forward(head, {x, x, x}, scale);
  const OwnedMatrix<double> d_z = product_nt(d_output, head.output);
  OwnedMatrix<double> d_scores = product_nt(d_z.view(), pass.value);
  through_softmax(pass.pattern, d_scores);
  const OwnedMatrix<double> d_query = product(d_scores.view(), pass.key.view(), scale);
  const OwnedMatrix<double> d_key = product_tn(d_scores, pass.query, scale);
  const OwnedMatrix<double> d_value = product_tn(pass.pattern, d_z);
  return {product_nt(d_query.view(), head.query), product_nt(d_key.view(), head.key),
          product_nt(d_value.view(), head.value), std::move(pass.pattern)};
}

namespace experiments {

OwnedMatrix<double> product(MatrixView<const double> a, MatrixView<const double> b, double scale) {
  OwnedMatrix<double> c(a.rows, b.cols);
  gemm_nn(a, b, c.view(), scale);
  return c;
}

void softmax(std::span<double> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double& value : row) sum += value = std::exp(value - largest);
  for (double& value : row) value /= sum;
}

HeadForward head_forward(const HeadMatrices& head, const RouteInputs& x, double scale) {
  HeadForward pass;
  pass.query = product(x.query, head.query.view());
  pass.key = product(x.key, head.key.view());
  pass.value = product(x.value, head.value.view());
  pass.pattern = OwnedMatrix<double>(x.query.rows, x.key.rows);
  gemm_nt(std::as_const(pass.query).view(), std::as_const(pass.key).view(), pass.pattern.view(), scale);
  for (std::size_t i = 0; i < pass.pattern.rows(); ++i) softmax(pass.pattern.view().row(i));
  return pass;
}

}  // namespace experiments
}  // namespace attnctl

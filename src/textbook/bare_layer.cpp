#include "textbook/bare_layer.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/gemm.hpp"

namespace attnctl {
namespace {

/// Returns x W of a head, [n, k].
OwnedMatrix<double> projected(const OwnedMatrix<double>& weight, std::size_t head, std::size_t d_head,
                              MatrixView<const double> x) {
  OwnedMatrix<double> result(x.rows, d_head);
  gemm_nt(x, weight.view().row_range(head * d_head, d_head), result.view());
  return result;
}

}  // namespace

OwnedMatrix<double> random_matrix(std::size_t rows, std::size_t cols, double deviation, Random& random) {
  OwnedMatrix<double> matrix(rows, cols);
  for (double& value : matrix.values()) value = deviation * random.normal();
  return matrix;
}

BareLayer random_bare_layer(std::size_t d, std::size_t heads, Random& random) {
  const double deviation = 1 / std::sqrt(static_cast<double>(d));
  BareLayer layer;
  layer.heads = heads;
  for (OwnedMatrix<double>* weight : {&layer.query, &layer.key, &layer.value, &layer.output}) {
    *weight = random_matrix(d, d, deviation, random);
  }
  return layer;
}

OwnedMatrix<double> scores_of(const BareLayer& layer, std::size_t head, MatrixView<const double> x) {
  const std::size_t k = layer.d_head();
  const OwnedMatrix<double> queries = projected(layer.query, head, k, x);
  const OwnedMatrix<double> keys = projected(layer.key, head, k, x);
  OwnedMatrix<double> scores(x.rows, x.rows);
  gemm_nt(queries.view(), keys.view(), scores.view(), 1 / std::sqrt(static_cast<double>(k)));
  return scores;
}

void softmax_rows(MatrixView<double> scores) {
  for (std::size_t r = 0; r < scores.rows; ++r) {
    const auto row = scores.row(r);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (double& value : row) sum += value = std::exp(value - largest);
    for (double& value : row) value /= sum;
  }
}

OwnedMatrix<double> output_of(const BareLayer& layer, MatrixView<const double> x) {
  const std::size_t k = layer.d_head();
  OwnedMatrix<double> z(x.rows, x.cols);
  for (std::size_t head = 0; head < layer.heads; ++head) {
    OwnedMatrix<double> pattern = scores_of(layer, head, x);
    softmax_rows(pattern.view());
    const OwnedMatrix<double> values = projected(layer.value, head, k, x);
    gemm_nn(pattern.view(), values.view(), z.view().col_range(head * k, k));
  }
  OwnedMatrix<double> output(x.rows, x.cols);
  gemm_nt(z.view(), layer.output.view(), output.view());
  return output;
}

}  // namespace attnctl

#include "model/weights.hpp"

namespace attnctl::model {
namespace {

OwnedMatrix<double> to_double(const StoredMatrix& matrix) {
  OwnedMatrix<double> out(matrix.in(), matrix.out());
  for (std::size_t i = 0; i < out.rows(); ++i) {
    for (std::size_t j = 0; j < out.cols(); ++j)
      out(i, j) = matrix.orientation == Orientation::in_out ? matrix.values(i, j) : matrix.values(j, i);
  }
  return out;
}

}  // namespace

Linear Linear::outputs(std::size_t begin, std::size_t count) const {
  Linear part = *this;
  part.stored =
      orientation == Orientation::in_out ? stored.col_range(begin, count) : stored.row_range(begin, count);
  if (!bias.empty()) part.bias = bias.subspan(begin, count);
  return part;
}

Linear Linear::inputs(std::size_t begin, std::size_t count) const {
  Linear part = *this;
  const auto [values, order] = factorised() ? first : last();
  (factorised() ? part.first.values : part.stored) =
      order == Orientation::in_out ? values.row_range(begin, count) : values.col_range(begin, count);
  part.bias = {};
  return part;
}

OwnedMatrix<double> Linear::in_out_double() const {
  if (!factorised()) return to_double(last());
  const OwnedMatrix<double> a = to_double(first);
  const OwnedMatrix<double> b = to_double(last());
  OwnedMatrix<double> product(a.rows(), b.cols());
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t r = 0; r < a.cols(); ++r) {
      for (std::size_t j = 0; j < b.cols(); ++j) product(i, j) += a(i, r) * b(r, j);
    }
  }
  return product;
}

void LookupTable::row(std::size_t r, std::span<float> out) const {
  const std::size_t bytes = width() * size_of(tensor.dtype);
  convert(tensor.dtype, tensor.bytes.subspan(r * bytes, bytes), out);
}

}  // namespace attnctl::model

#include "linalg/encoded.hpp"

#include <stdexcept>

#include "base/memory.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::linalg {

Decoders decoders(NumberEncoding encoding) {
  return kernels().decoders.at(static_cast<std::size_t>(encoding));
}

EncodedMatrix EncodedMatrix::row_range(std::size_t first, std::size_t count) const {
  EncodedMatrix part = *this;
  part.first_row += first;
  part.rows = count;
  return part;
}

EncodedMatrix EncodedMatrix::col_range(std::size_t first, std::size_t count) const {
  const EncodingBlock block = block_size(encoding);
  if (first % block.values != 0)
    throw std::logic_error("a range of columns begins inside of a block of an encoded matrix");
  EncodedMatrix part = *this;
  part.data += first / block.values * block.bytes;
  part.cols = count;
  return part;
}

void EncodedMatrix::decode_row(std::size_t r, std::span<float> out) const {
  const std::size_t values = block_size(encoding).values;
  if (out.size() != cols || cols % values != 0)
    throw std::logic_error("a row of an encoded matrix is not a whole number of blocks");
  decoders(encoding).rows(row(r), cols / values, out.data());
}

void multiply_encoded(bool transpose_b, MatrixView<const float> a, const EncodedMatrix& b,
                      std::span<const float> bias, MatrixView<float> c, bool accumulate) {
  const std::size_t inner = transpose_b ? b.cols : b.rows;
  const std::size_t n = transpose_b ? b.rows : b.cols;
  if (a.cols != inner || c.rows != a.rows || c.cols != n || (!bias.empty() && bias.size() != n))
    throw std::logic_error("the shapes of a product with an encoded matrix do not match");
  const EncodingBlock block = block_size(b.encoding);
  if (b.cols % block.values != 0 || (!transpose_b && block.values != 1))
    throw std::logic_error("a product needs whole blocks of an encoded matrix");
  if (c.empty()) return;
  EncodedProduct product;
  product.product = {c.rows, c.cols, a.cols, a.data, a.stride, nullptr, 0, c.data, c.stride, 1, accumulate};
  product.product.bias = bias.empty() ? nullptr : bias.data();
  product.b = &b;
  product.transposed = transpose_b;
  product.block = block;
  product.decode = decoders(b.encoding);
  thread_local AlignedWorkspace workspace;
  gemm_kernels().encoded(product, workspace.take(kGemmWorkspace));
}

}  // namespace attnctl::linalg

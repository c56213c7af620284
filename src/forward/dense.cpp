#include "forward/dense.hpp"

#include "attnctl/linalg/gemm.hpp"
#include "attnctl/linalg/kernels.hpp"

#include <algorithm>
#include <vector>

namespace attnctl::forward {
namespace {

/// A rectangle of a product's output.
struct Slab {
  std::size_t product = 0;
  std::size_t first_row = 0, rows = 0;
  std::size_t first_col = 0, cols = 0;
};

/// Where part `index` of `parts` begins, on a multiple of the rows and columns that BLAS kernels work by.
std::size_t boundary(std::size_t extent, std::size_t index, std::size_t parts) {
  constexpr std::size_t unit = 16;
  return std::min(extent, (extent * index / parts + unit - 1) / unit * unit);
}

/// One slab a worker: rows where there are enough of them to make up for reading the weights once more,
/// columns elsewhere.
void cut(std::size_t product, std::size_t rows, std::size_t cols, std::size_t workers,
         std::vector<Slab>& slabs) {
  constexpr std::size_t enough_rows = 128;
  constexpr std::size_t enough_cols = 32;
  const std::size_t row_parts = std::clamp<std::size_t>(rows / enough_rows, 1, workers);
  const std::size_t col_parts =
      std::clamp<std::size_t>(cols / enough_cols, 1, (workers + row_parts - 1) / row_parts);
  for (std::size_t r = 0; r < row_parts; ++r) {
    const std::size_t first_row = boundary(rows, r, row_parts);
    const std::size_t row_count = boundary(rows, r + 1, row_parts) - first_row;
    for (std::size_t c = 0; c < col_parts; ++c) {
      const std::size_t first_col = boundary(cols, c, col_parts);
      const std::size_t col_count = boundary(cols, c + 1, col_parts) - first_col;
      if (row_count > 0 && col_count > 0) {
        slabs.push_back({product, first_row, row_count, first_col, col_count});
      }
    }
  }
}

void activate(Activation activation, std::span<float> row) {
  const Kernels& k = kernels();
  switch (activation) {
    case Activation::gelu_erf:
      return k.gelu_erf(row);
    case Activation::gelu_tanh:
      return k.gelu_tanh(row);
    case Activation::silu:
      return k.silu(row);
    case Activation::relu:
      return k.relu(row);
    case Activation::relu_squared:
      return k.relu_squared(row);
    case Activation::tanh:
      return k.tanh(row);
  }
}

MatrixView<float> part_of(MatrixView<float> out, const Slab& slab) {
  return out.row_range(slab.first_row, slab.rows).col_range(slab.first_col, slab.cols);
}

void compute(const Dense& product, const Slab& slab) {
  const Linear weights = product.weights.outputs(slab.first_col, slab.cols);
  const MatrixView<const float> x = product.x.row_range(slab.first_row, slab.rows);
  const MatrixView<float> out = part_of(product.out, slab);
  const float beta = product.accumulate ? 1.0F : 0.0F;
  if (weights.orientation == Orientation::in_out) {
    gemm_nn(x, weights.stored, out, 1, beta);
  } else {
    gemm_nt(x, weights.stored, out, 1, beta);
  }
  for (std::size_t r = 0; r < out.rows; ++r) {
    if (!weights.bias.empty()) kernels().add(weights.bias, out.row(r));
    if (product.activation) activate(*product.activation, out.row(r));
  }
}

}  // namespace

void run_dense(Pool& pool, std::span<const Dense> products) {
  std::vector<Slab> slabs;
  for (std::size_t i = 0; i < products.size(); ++i) {
    cut(i, products[i].out.rows, products[i].out.cols, pool.size(), slabs);
  }
  pool.run(slabs.size(),
           [&](std::size_t task, std::size_t) { compute(products[slabs[task].product], slabs[task]); });
}

void run_gated(Pool& pool, const Dense& gate, const Dense& up) {
  std::vector<Slab> slabs;
  cut(0, up.out.rows, up.out.cols, pool.size(), slabs);
  pool.run(slabs.size(), [&](std::size_t task, std::size_t) {
    compute(gate, slabs[task]);
    compute(up, slabs[task]);
    const MatrixView<float> factor = part_of(gate.out, slabs[task]);
    const MatrixView<float> out = part_of(up.out, slabs[task]);
    for (std::size_t r = 0; r < out.rows; ++r) kernels().multiply(factor.row(r), out.row(r));
  });
}

}  // namespace attnctl::forward

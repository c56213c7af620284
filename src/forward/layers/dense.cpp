#include "forward/layers/dense.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::forward {
namespace {

/// A rectangle of a product's output.
struct Slab {
  std::size_t product = 0;
  std::size_t first_row = 0, rows = 0;
  std::size_t first_col = 0, cols = 0;
};

/// Products are made of tiles of so many rows and columns: slabs are whole ones.
constexpr std::size_t row_unit = 16;
constexpr std::size_t col_unit = 64;

/// Where part `index` of `parts` begins.
std::size_t boundary(std::size_t extent, std::size_t index, std::size_t parts, std::size_t unit) {
  const std::size_t units = (extent + unit - 1) / unit;
  return std::min(extent, units * index / parts * unit);
}

/// The largest part of so many.
std::size_t largest(std::size_t extent, std::size_t parts, std::size_t unit) {
  const std::size_t units = (extent + unit - 1) / unit;
  return std::min(extent, (units + parts - 1) / parts * unit);
}

struct Parts {
  std::size_t rows = 1, cols = 1;
};

/// A slab a worker, so that the largest costs least: what it multiplies, and the laying out of its weights,
/// which takes about as long as this many rows. So there are many columns first.
Parts parts_of(std::size_t rows, std::size_t cols, std::size_t workers) {
  constexpr std::size_t rows_of_layout = 24;
  const std::size_t most_cols = std::clamp<std::size_t>((cols + col_unit - 1) / col_unit, 1, workers);
  Parts best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (std::size_t c = most_cols; c > 0; --c) {
    const std::size_t r = std::clamp<std::size_t>(rows / row_unit, 1, workers / c);
    const std::size_t cost = (largest(rows, r, row_unit) + rows_of_layout) * largest(cols, c, col_unit);
    if (cost >= least) continue;
    least = cost;
    best = {r, c};
  }
  return best;
}

void cut(std::size_t product, std::size_t rows, std::size_t cols, std::size_t workers,
         std::vector<Slab>& slabs) {
  const Parts parts = parts_of(rows, cols, workers);
  for (std::size_t r = 0; r < parts.rows; ++r) {
    const std::size_t first_row = boundary(rows, r, parts.rows, row_unit);
    const std::size_t row_count = boundary(rows, r + 1, parts.rows, row_unit) - first_row;
    for (std::size_t c = 0; c < parts.cols; ++c) {
      const std::size_t first_col = boundary(cols, c, parts.cols, col_unit);
      const std::size_t col_count = boundary(cols, c + 1, parts.cols, col_unit) - first_col;
      if (row_count > 0 && col_count > 0)
        slabs.push_back({product, first_row, row_count, first_col, col_count});
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
    gemm_nn_biased(x, weights.stored, weights.bias, out, beta);
  } else {
    gemm_nt_biased(x, weights.stored, weights.bias, out, beta);
  }
  if (!product.activation) return;
  for (std::size_t r = 0; r < out.rows; ++r) activate(*product.activation, out.row(r));
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

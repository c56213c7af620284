#include <array>
#include <limits>

#include "forward/layers/layers.hpp"
#include "linalg/encoded.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::forward {
namespace {

/// A rectangle of the output of a product.
struct Slab {
  std::size_t product = 0;
  std::size_t first_row = 0, rows = 0;
  std::size_t first_col = 0, cols = 0;
};

/// The rows and columns of slabs begin at multiples of these numbers.
constexpr std::size_t kRowUnit = 16;
constexpr std::size_t kColUnit = 64;

/// Returns the first row or column of part `index` if `extent` is divided into `parts` parts.
std::size_t boundary(std::size_t extent, std::size_t index, std::size_t parts, std::size_t unit) {
  const std::size_t units = (extent + unit - 1) / unit;
  return std::min(extent, units * index / parts * unit);
}

/// Returns an upper bound of the rows or columns of a part if `extent` is divided into `parts` parts.
std::size_t largest(std::size_t extent, std::size_t parts, std::size_t unit) {
  const std::size_t units = (extent + unit - 1) / unit;
  return std::min(extent, (units + parts - 1) / parts * unit);
}

/// Divides a product into a grid of up to `workers` slabs such that the largest slab costs least. The cost of
/// a slab includes packing its weights, which takes as long as computing about kPackingRows rows. Therefore
/// it often costs less to divide the columns than to divide the rows.
void cut(std::size_t product, std::size_t rows, std::size_t cols, std::size_t workers,
         std::vector<Slab>& slabs) {
  constexpr std::size_t kPackingRows = 24;
  const std::size_t most_cols = std::clamp<std::size_t>((cols + kColUnit - 1) / kColUnit, 1, workers);
  std::size_t row_parts = 1;
  std::size_t col_parts = 1;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (std::size_t c = most_cols; c > 0; --c) {
    const std::size_t r = std::clamp<std::size_t>(rows / kRowUnit, 1, workers / c);
    const std::size_t cost = (largest(rows, r, kRowUnit) + kPackingRows) * largest(cols, c, kColUnit);
    if (cost >= least) continue;
    least = cost;
    row_parts = r;
    col_parts = c;
  }
  for (std::size_t r = 0; r < row_parts; ++r) {
    const std::size_t first_row = boundary(rows, r, row_parts, kRowUnit);
    const std::size_t row_count = boundary(rows, r + 1, row_parts, kRowUnit) - first_row;
    for (std::size_t c = 0; c < col_parts; ++c) {
      const std::size_t first_col = boundary(cols, c, col_parts, kColUnit);
      const std::size_t col_count = boundary(cols, c + 1, col_parts, kColUnit) - first_col;
      if (row_count > 0 && col_count > 0)
        slabs.push_back({product, first_row, row_count, first_col, col_count});
    }
  }
}

// Indexed by Activation.
constexpr std::array kActivations = {&linalg::Kernels::gelu_erf,     &linalg::Kernels::gelu_tanh,
                                     &linalg::Kernels::silu,         &linalg::Kernels::relu,
                                     &linalg::Kernels::relu_squared, &linalg::Kernels::tanh};

MatrixView<float> part_of(MatrixView<float> out, const Slab& slab) {
  return out.row_range(slab.first_row, slab.rows).col_range(slab.first_col, slab.cols);
}

void compute(const Dense& product, const Slab& slab) {
  const model::Linear weights = product.weights.outputs(slab.first_col, slab.cols);
  const MatrixView<const float> x = product.x.row_range(slab.first_row, slab.rows);
  const MatrixView<float> out = part_of(product.out, slab);
  const bool transposed = weights.orientation == model::Orientation::out_in;
  if (weights.encoded.present()) {
    linalg::multiply_encoded(transposed, x, weights.encoded, weights.bias, out, product.accumulate);
  } else {
    const float beta = product.accumulate ? 1.0F : 0.0F;
    linalg::gemm_biased(transposed, x, weights.stored, weights.bias, out, beta);
  }
  if (!product.activation) return;
  const auto activate = linalg::kernels().*kActivations.at(static_cast<std::size_t>(*product.activation));
  for (std::size_t r = 0; r < out.rows; ++r) activate(out.row(r));
}

void norm_row(const model::NormConfig& config, const model::NormWeights& weights, std::span<const float> x,
              std::span<float> out) {
  switch (config.kind) {
    case model::NormKind::layer:
      return linalg::kernels().layer_norm(x, weights.gain, weights.bias, config.eps, out);
    case model::NormKind::rms:
      return linalg::kernels().rms_norm(x, weights.gain, config.eps, out);
    case model::NormKind::none:
      if (x.data() != out.data()) std::copy(x.begin(), x.end(), out.begin());
  }
}

/// For each position p and channel c, writes the `kernel` values of the channel around p: windows(p, c *
/// kernel + t) = x(p + t - (kernel - 1) / 2, c), or 0 if that row of x does not exist.
void fill_windows(MatrixView<const float> x, std::size_t kernel, MatrixView<float> windows) {
  const std::size_t side = (kernel - 1) / 2;
  for (std::size_t p = 0; p < x.rows; ++p) {
    const std::span<float> window = windows.row(p);
    for (std::size_t t = 0; t < kernel; ++t) {
      const bool inside = p + t >= side && p + t - side < x.rows;
      for (std::size_t c = 0; c < x.cols; ++c) window[c * kernel + t] = inside ? x(p + t - side, c) : 0.0F;
    }
  }
}

}  // namespace

void run_dense(Pool& pool, std::span<const Dense> products) {
  std::vector<Slab> slabs;
  for (std::size_t i = 0; i < products.size(); ++i)
    cut(i, products[i].out.rows, products[i].out.cols, pool.size(), slabs);
  pool.run(slabs.size(),
           [&](std::size_t task, std::size_t) { compute(products[slabs[task].product], slabs[task]); });
}

void run_dense(Pool& pool, const Dense& product) {
  run_dense(pool, {&product, 1});
}

void run_gated(Pool& pool, const Dense& gate, const Dense& up) {
  std::vector<Slab> slabs;
  cut(0, up.out.rows, up.out.cols, pool.size(), slabs);
  pool.run(slabs.size(), [&](std::size_t task, std::size_t) {
    compute(gate, slabs[task]);
    compute(up, slabs[task]);
    const MatrixView<float> factor = part_of(gate.out, slabs[task]);
    const MatrixView<float> out = part_of(up.out, slabs[task]);
    for (std::size_t r = 0; r < out.rows; ++r) linalg::kernels().multiply(factor.row(r), out.row(r));
  });
}

void apply_norm(Pool& pool, const model::NormConfig& config, const model::NormWeights& weights,
                MatrixView<const float> x, MatrixView<float> out) {
  if (config.kind == model::NormKind::none && x.data == out.data) return;
  for_rows(pool, x.rows, x.cols, [&](std::size_t r) { norm_row(config, weights, x.row(r), out.row(r)); });
}

void add_rows(Pool& pool, MatrixView<const float> y, MatrixView<float> x, float factor) {
  for_rows(pool, x.rows, x.cols, [&](std::size_t r) {
    if (factor == 1) return linalg::kernels().add(y.row(r), x.row(r));
    for (std::size_t c = 0; c < x.cols; ++c) x(r, c) += factor * y(r, c);
  });
}

void Convolution::keep(const model::ModelConfig& config, MatrixView<const float> embeddings) {
  const bool needed = std::ranges::any_of(
      config.layers, [](const model::LayerConfig& layer) { return layer.convolution != nullptr; });
  if (!needed) return;
  const MatrixView<float> copy = embeddings_.take(embeddings.rows, embeddings.cols);
  for (std::size_t r = 0; r < copy.rows; ++r) std::ranges::copy(embeddings.row(r), copy.row(r).begin());
  kept_ = copy;
}

void Convolution::add(Pool& pool, const Block& block, const model::LayerConfig& config,
                      const model::LayerWeights& weights, MatrixView<float> x) {
  if (!config.convolution) return;
  const model::ConvolutionConfig& convolution = *config.convolution;
  const std::size_t channels = x.cols / convolution.groups;
  const MatrixView<float> windows = windows_.take(x.rows, x.cols * convolution.kernel);
  const MatrixView<float> out = out_.take(x.rows, x.cols);
  for (const BlockSequence& place : block.sequences) {
    fill_windows(kept_.row_range(place.first_query, place.queries), convolution.kernel,
                 windows.row_range(place.first_query, place.queries));
  }
  std::vector<Dense> products;
  for (std::size_t group = 0; group < convolution.groups; ++group) {
    const std::size_t width = channels * convolution.kernel;
    products.push_back({windows.col_range(group * width, width),
                        weights.convolution.outputs(group * channels, channels),
                        out.col_range(group * channels, channels), convolution.activation});
  }
  run_dense(pool, products);
  add_rows(pool, out, x);
  apply_norm(pool, config.norm, weights.convolution_norm, x, x);
}

}  // namespace attnctl::forward

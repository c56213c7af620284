#include "forward/layers/convolution.hpp"

#include <algorithm>

#include "forward/layers/dense.hpp"
#include "forward/layers/norm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::forward {
namespace {

/// The channels' neighbourhoods side by side: windows(p, c * kernel + t) = x(p + t - side, c), zero beyond
/// the ends.
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

void Convolution::keep(const ModelConfig& config, MatrixView<const float> embeddings) {
  const bool needed = std::ranges::any_of(
      config.layers, [](const LayerConfig& layer) { return layer.convolution != nullptr; });
  if (!needed) return;
  const MatrixView<float> copy = embeddings_.take(embeddings.rows, embeddings.cols);
  for (std::size_t r = 0; r < copy.rows; ++r) std::ranges::copy(embeddings.row(r), copy.row(r).begin());
  kept_ = copy;
}

void Convolution::add(Pool& pool, const Block& block, const LayerConfig& config, const LayerWeights& weights,
                      MatrixView<float> x) {
  if (!config.convolution) return;
  const ConvolutionConfig& convolution = *config.convolution;
  const std::size_t channels = x.cols / convolution.groups;
  const MatrixView<float> windows = windows_.take(x.rows, x.cols * convolution.kernel);
  const MatrixView<float> out = out_.take(x.rows, x.cols);
  for (const Part& part : block.parts) {
    fill_windows(kept_.row_range(part.first_query, part.queries), convolution.kernel,
                 windows.row_range(part.first_query, part.queries));
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

#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "base/matrix_view.hpp"
#include "base/memory.hpp"
#include "base/pool.hpp"
#include "forward/block.hpp"
#include "model/model.hpp"

namespace attnctl::forward {

/// The memory of a matrix that is overwritten for every layer and Block.
class Buffer {
 public:
  /// Returns a matrix [rows, cols] with undefined values. If the memory grows, views that were returned
  /// before become invalid.
  [[nodiscard]] MatrixView<float> take(std::size_t rows, std::size_t cols);

 private:
  AlignedWorkspace values_;
};

/// Calls work(first, count) for row ranges that together cover all rows. Runs in parallel if there are enough
/// elements.
template <typename Work>
void for_row_ranges(Pool& pool, std::size_t rows, std::size_t elements_per_row, const Work& work) {
  constexpr std::size_t kElementsPerTask = 32768;  // a norm of this number of elements takes about 10 us
  const std::size_t wanted = rows * elements_per_row / kElementsPerTask;
  const std::size_t ranges =
      std::clamp<std::size_t>(wanted, 1, std::min(pool.size(), std::max<std::size_t>(rows, 1)));
  if (ranges == 1) return work(std::size_t{0}, rows);
  pool.run(ranges, [&](std::size_t task, std::size_t) {
    const std::size_t first = rows * task / ranges;
    work(first, rows * (task + 1) / ranges - first);
  });
}

/// A product with weights: out = act(x W + b), or out = act(out + x W + b) if `accumulate` is true.
struct Dense {
  MatrixView<const float> x;  // [rows, in]
  model::Linear weights;      // [in, out], not factorised
  MatrixView<float> out;      // [rows, out]
  std::optional<model::Activation> activation = std::nullopt;
  bool accumulate = false;
};

/// Computes independent products in parallel. Each product is divided into slabs of rows and columns; one
/// thread computes a slab.
void run_dense(Pool& pool, std::span<const Dense> products);
void run_dense(Pool& pool, const Dense& product);

/// Computes up.out = gate.out * up.out element by element, after it has computed both products. Both products
/// have the same shapes.
void run_gated(Pool& pool, const Dense& gate, const Dense& up);

/// Normalises each row: out = N(x), both [rows, width]. x and out may be the same memory. NormKind::none
/// copies the rows.
void apply_norm(Pool& pool, const model::NormConfig& config, const model::NormWeights& weights,
                MatrixView<const float> x, MatrixView<float> out);

/// Computes x += factor * y.
void add_rows(Pool& pool, MatrixView<const float> y, MatrixView<float> x, float factor = 1);

/// Computes a layer's convolution over the embeddings, adds the result to the layer's output, and normalises
/// the sum.
class Convolution {
 public:
  /// Copies the embeddings [rows, d] if a layer of the model has a convolution.
  void keep(const model::ModelConfig& config, MatrixView<const float> embeddings);

  /// Computes x = N(x + act(conv(embeddings))) for each sequence, if the layer has a convolution.
  void add(Pool& pool, const Block& block, const model::LayerConfig& config,
           const model::LayerWeights& weights, MatrixView<float> x);

 private:
  Buffer embeddings_, windows_, out_;
  MatrixView<const float> kept_;
};

}  // namespace attnctl::forward

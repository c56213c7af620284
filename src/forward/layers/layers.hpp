#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/memory.hpp"
#include "base/pool.hpp"
#include "forward/block.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// Parts of the forward pass other than attention: products with weights, norms and convolutions (dense.cpp),
// MLPs and experts (mlp.cpp), embeddings and the output head (ends.cpp).
namespace attnctl::forward {

/// Memory for a matrix, used again for every layer and every Block (a group of sequences).
using Buffer = AlignedWorkspace;

/// Calls work(r) for all rows. Runs in parallel if there are enough elements.
template <typename Work>
void for_rows(Pool& pool, std::size_t rows, std::size_t elements_per_row, const Work& work) {
  constexpr std::size_t kElementsPerTask = 32768;  // a norm of this number of elements takes about 10 us
  const std::size_t wanted = rows * elements_per_row / kElementsPerTask;
  const std::size_t ranges =
      std::clamp<std::size_t>(wanted, 1, std::min(pool.size(), std::max<std::size_t>(rows, 1)));
  const auto run = [&](std::size_t task, std::size_t /*worker*/) {
    const std::size_t last = rows * (task + 1) / ranges;
    for (std::size_t r = rows * task / ranges; r < last; ++r) work(r);
  };
  if (ranges == 1) return run(0, 0);
  pool.run(ranges, run);
}

/// A product with weights: out = act(x W + b), or out = act(out + x W + b) if `accumulate` is true. Without
/// an activation, act is the identity.
struct Dense {
  MatrixView<const float> x;  // [rows, in]
  model::Linear weights;      // W [in, out], stored in any orientation; not factorised
  MatrixView<float> out;      // [rows, out]
  std::optional<model::Activation> activation = std::nullopt;
  bool accumulate = false;
};

/// Computes independent products in parallel. Each task computes a rectangle of the output of one product.
void run_dense(Pool& pool, std::span<const Dense> products);
void run_dense(Pool& pool, const Dense& product);

/// Computes both products, which have the same shapes, then up.out = gate.out * up.out for each element.
void run_gated(Pool& pool, const Dense& gate, const Dense& up);

/// Normalises the rows of x [rows, width] to out, which may be x. NormKind::none copies the rows.
void apply_norm(Pool& pool, const model::NormConfig& config, const model::NormWeights& weights,
                MatrixView<const float> x, MatrixView<float> out);

/// Computes x += factor * y.
void add_rows(Pool& pool, MatrixView<const float> y, MatrixView<float> x, float factor = 1);

/// Adds a layer's convolution over the embeddings to the layer's output, and normalises the sum.
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

/// Largest number of rows of the MLP that are computed at once. Limits the memory: an inner row is several
/// times d_model wide.
inline constexpr std::size_t kMlpRows = 1024;

/// Returns the experts of one token, given the scores [experts] of the router.
[[nodiscard]] ExpertRoute route_of(const model::ExpertsConfig& config, std::span<const float> scores);

struct MlpBuffers {
  Buffer normed, inner, gate, out;
};

/// Changes the rows [first_row, first_row + term.rows) of the term that an MLP adds to the residual stream.
using EditMlp = std::function<void(std::size_t first_row, MatrixView<float> term)>;

/// Adds the output of the layer's MLP or experts to x [rows, d_model], with the norms and the residual
/// multiplier of the layer. Does nothing if the layer has no MLP. Appends the experts of each row to `routes`
/// if `routes` is not null and the layer has experts. `edit` may be empty.
void add_mlp(Pool& pool, const model::LayerConfig& config, const model::LayerWeights& weights,
             MlpBuffers& buffers, MatrixView<float> x, std::vector<ExpertRoute>* routes, const EditMlp& edit);

/// Writes the input of the first layer, x [block.rows, d_model]: the sum of token or patch, token type and
/// position embeddings, with the norm and the projection of the model. If the Block belongs to the decoder,
/// these are the embeddings of the targets.
void embed(Pool& pool, const model::Model& model, const input::Batch& batch, const Block& block,
           MatrixView<float> x);

/// Returns the number of rows for which logits are computed at once, which limits the memory of logits.
[[nodiscard]] std::size_t logits_rows(std::size_t vocabulary);

struct HeadBuffers {
  Buffer normed, projected, transformed, logits;
};

/// Returns the logits [rows, vocabulary] of the residual stream x [rows, d_model], in one of the buffers.
[[nodiscard]] MatrixView<const float> logits_of(Pool& pool, const model::Model& model, HeadBuffers& buffers,
                                                MatrixView<const float> x);

}  // namespace attnctl::forward

#include "forward/embed.hpp"

#include "attnctl/linalg/kernels.hpp"

#include <algorithm>
#include <vector>

#include "forward/dense.hpp"
#include "forward/norm.hpp"
#include "forward/position.hpp"

namespace attnctl::forward {
namespace {

/// Token (or given) embeddings of one sequence, token types and positions added.
void embed_sequence(const EmbeddingConfig& config, const EmbeddingWeights& weights, const Sequence& sequence,
                    MatrixView<float> x) {
  std::vector<float> row(x.cols);
  for (std::size_t p = 0; p < x.rows; ++p) {
    if (sequence.ids.empty()) {
      const auto given = sequence.embeddings.view().row(p);
      std::copy(given.begin(), given.end(), x.row(p).begin());
    } else {
      weights.token.row(static_cast<std::size_t>(sequence.ids[p]), x.row(p));
    }
    if (weights.token_type.present()) {
      const std::int64_t type = sequence.token_type_ids.empty() ? 0 : sequence.token_type_ids[p];
      weights.token_type.row(static_cast<std::size_t>(type), row);
      kernels().add(row, x.row(p));
    }
    if (config.position == PositionKind::learned) {
      weights.position.row(p + config.position_offset, row);
      kernels().add(row, x.row(p));
    }
  }
  if (config.position == PositionKind::sinusoidal) add_sinusoidal(x);
}

}  // namespace

std::size_t embedding_width(const ModelConfig& config) {
  return config.embedding.width == 0 ? config.d_model : config.embedding.width;
}

void embed(Pool& pool, const Model& model, const Batch& batch, const Block& block, MatrixView<float> x) {
  const EmbeddingConfig& config = model.config().embedding;
  const EmbeddingWeights& weights = model.embedding();
  const bool projected = weights.projection.present();
  OwnedMatrix<float> narrow(projected ? x.rows : 0, embedding_width(model.config()));
  const MatrixView<float> sum = projected ? narrow.view() : x;
  for (const Part& part : block.parts) {
    embed_sequence(config, weights, batch.sequences[part.sequence],
                   sum.row_range(part.first_query, part.queries));
  }
  apply_norm(pool, config.norm, weights.norm, sum, sum);
  if (projected) {
    const Dense projection{sum, weights.projection, x};
    run_dense(pool, {&projection, 1});
  }
}

}  // namespace attnctl::forward

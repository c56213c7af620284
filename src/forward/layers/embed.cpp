#include "forward/layers/embed.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "forward/layers/dense.hpp"
#include "forward/layers/norm.hpp"
#include "forward/position/position.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::forward {
namespace {

/// The row of the position table that each token has.
std::vector<std::size_t> position_rows(const EmbeddingConfig& config, const Sequence& sequence,
                                       std::size_t count) {
  std::vector<std::size_t> rows(count);
  std::size_t next = config.position_offset;
  for (std::size_t p = 0; p < count; ++p) {
    if (config.counts_visible && !sequence.key_visible.empty()) {
      rows[p] = sequence.key_visible[p] != 0 ? next++ : config.position_offset - 1;
      continue;
    }
    const bool left_out =
        config.padding && !sequence.ids.empty() && std::cmp_equal(sequence.ids[p], *config.padding);
    rows[p] = left_out ? *config.padding : next++;
  }
  return rows;
}

/// What token embeddings are multiplied by: TokenDropout's share, of the tokens that the key mask shows.
float dropout_factor(const TokenDropout& dropout, const Sequence& sequence) {
  const auto& visible = sequence.key_visible;
  const auto length =
      visible.empty() ? sequence.ids.size() : std::accumulate(visible.begin(), visible.end(), std::size_t{0});
  const auto dropped = std::ranges::count(sequence.ids, dropout.token);
  return static_cast<float>(dropout.kept / (1 - static_cast<double>(dropped) / static_cast<double>(length)));
}

/// Embeddings of tokens that the key mask hides, where they are zero.
void zero_hidden(const EmbeddingConfig& config, const Sequence& sequence, MatrixView<float> x) {
  if (!config.zero_hidden || sequence.key_visible.size() != x.rows) return;
  for (std::size_t p = 0; p < x.rows; ++p) {
    if (sequence.key_visible[p] == 0) std::ranges::fill(x.row(p), 0.0F);
  }
}

/// What token p begins as: the embedding of its id, of its patch, or the given one.
void embed_token(const EmbeddingConfig& config, const EmbeddingWeights& weights, const Sequence& sequence,
                 std::size_t p, std::span<float> out) {
  if (sequence.patches.rows() > 0) {
    if (p == 0) weights.class_token.row(0, out);  // the patches are there already
  } else if (sequence.ids.empty()) {
    const auto given = sequence.embeddings.view().row(p);
    std::copy(given.begin(), given.end(), out.begin());
  } else {
    weights.token.row(static_cast<std::size_t>(sequence.ids[p]), out);
    if (config.multiplier != 1) {
      for (float& value : out) value *= static_cast<float>(config.multiplier);
    }
  }
}

/// Token (or given) embeddings of one sequence, token types and positions added.
void embed_tokens(const EmbeddingConfig& config, const EmbeddingWeights& weights, const Sequence& sequence,
                  MatrixView<float> x) {
  std::vector<float> row(x.cols);
  const bool drops = config.dropout && !sequence.ids.empty();
  const float factor = drops ? dropout_factor(*config.dropout, sequence) : 1.0F;
  for (std::size_t p = 0; p < x.rows; ++p) {
    embed_token(config, weights, sequence, p, x.row(p));
    if (drops) {
      const bool dropped = sequence.ids[p] == config.dropout->token;
      for (float& value : x.row(p)) value = (dropped ? 0.0F : value) * factor;
    }
    if (weights.token_type.present()) {
      const std::int64_t type = sequence.token_type_ids.empty() ? 0 : sequence.token_type_ids[p];
      weights.token_type.row(static_cast<std::size_t>(type), row);
      kernels().add(row, x.row(p));
    }
  }
}

void add_positions(const EmbeddingConfig& config, const EmbeddingWeights& weights, const Sequence& sequence,
                   MatrixView<float> x) {
  if (config.position == PositionKind::sinusoidal) return add_sinusoidal(x);
  if (config.position == PositionKind::sinusoidal_halves) return add_sinusoidal_halves(x);
  if (config.position != PositionKind::learned) return;
  std::vector<float> row(x.cols);
  const std::vector<std::size_t> positions = position_rows(config, sequence, x.rows);
  for (std::size_t p = 0; p < x.rows; ++p) {
    weights.position.row(positions[p], row);
    kernels().add(row, x.row(p));
  }
}

}  // namespace

std::size_t embedding_width(const ModelConfig& config) {
  return config.embedding.width == 0 ? config.d_model : config.embedding.width;
}

void embed(Pool& pool, const Model& model, const Batch& batch, const Block& block, MatrixView<float> x) {
  const bool of_target = needs_target(block.component);
  const EmbeddingConfig& config = of_target ? model.config().decoder->embedding : model.config().embedding;
  const Lease<EmbeddingWeights> lease = of_target ? model.target_embedding() : model.embedding();
  const EmbeddingWeights& weights = *lease;
  const bool projected = weights.projection.present();
  OwnedMatrix<float> narrow(projected ? x.rows : 0, embedding_width(model.config()));
  const MatrixView<float> sum = projected ? narrow.view() : x;
  const auto place = [&](MatrixView<float> rows) {
    for (const Part& part : block.parts) {
      add_positions(config, weights, sides_of(block.component, batch.sequences[part.sequence]).queries_of,
                    rows.row_range(part.first_query, part.queries));
    }
  };
  for (const Part& part : block.parts) {
    const Sequence& sequence = sides_of(block.component, batch.sequences[part.sequence]).queries_of;
    const MatrixView<float> rows = sum.row_range(part.first_query, part.queries);
    if (sequence.patches.rows() > 0) {
      const Dense patches{sequence.patches.view(), weights.patches, rows.row_range(1, rows.rows - 1)};
      run_dense(pool, {&patches, 1});
    }
    embed_tokens(config, weights, sequence, rows);
  }
  if (!config.positions_last) place(sum);
  if (!config.projected_first) apply_norm(pool, config.norm, weights.norm, sum, sum);
  if (projected) {
    const Dense projection{sum, weights.projection, x};
    run_dense(pool, {&projection, 1});
  }
  if (config.projected_first) apply_norm(pool, config.norm, weights.norm, x, x);
  if (config.positions_last) place(x);
  for (const Part& part : block.parts) {
    zero_hidden(config, batch.sequences[part.sequence], x.row_range(part.first_query, part.queries));
  }
}

}  // namespace attnctl::forward

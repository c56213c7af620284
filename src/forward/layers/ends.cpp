#include <numeric>
#include <utility>

#include "forward/attention/attention.hpp"
#include "forward/layers/layers.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::forward {
namespace {

/// Returns kept / (1 - s), where s is the number of dropped tokens divided by the number of visible tokens.
float dropout_factor(const model::TokenDropout& dropout, const input::Sequence& sequence) {
  const auto& visible = sequence.key_visible;
  const auto length =
      visible.empty() ? sequence.ids.size() : std::accumulate(visible.begin(), visible.end(), std::size_t{0});
  const auto dropped = std::ranges::count(sequence.ids, dropout.token);
  return static_cast<float>(dropout.kept / (1 - static_cast<double>(dropped) / static_cast<double>(length)));
}

/// Writes the token embeddings of one sequence, and adds those of the token types. For an image, writes only
/// the class token: x already contains the patches.
void embed_tokens(const model::EmbeddingConfig& config, const model::EmbeddingWeights& weights,
                  const input::Sequence& sequence, MatrixView<float> x) {
  std::vector<float> row(x.cols);
  const bool drops = config.dropout && !sequence.ids.empty();
  const float factor = drops ? dropout_factor(*config.dropout, sequence) : 1.0F;
  for (std::size_t p = 0; p < x.rows; ++p) {
    if (sequence.patches.rows() > 0) {
      if (p == 0) weights.class_token.row(0, x.row(0));
    } else if (sequence.ids.empty()) {
      std::ranges::copy(sequence.embeddings.view().row(p), x.row(p).begin());
    } else {
      weights.token.row(static_cast<std::size_t>(sequence.ids[p]), x.row(p));
      if (config.multiplier != 1) {
        for (float& value : x.row(p)) value *= static_cast<float>(config.multiplier);
      }
    }
    if (drops) {
      const bool dropped = sequence.ids[p] == config.dropout->token;
      for (float& value : x.row(p)) value = (dropped ? 0.0F : value) * factor;
    }
    if (weights.token_type.present()) {
      const std::int64_t type = sequence.token_type_ids.empty() ? 0 : sequence.token_type_ids[p];
      weights.token_type.row(static_cast<std::size_t>(type), row);
      linalg::kernels().add(row, x.row(p));
    }
  }
}

void add_positions(const model::EmbeddingConfig& config, const model::EmbeddingWeights& weights,
                   const input::Sequence& sequence, MatrixView<float> x) {
  const bool halves = config.position == model::PositionKind::sinusoidal_halves;
  if (halves || config.position == model::PositionKind::sinusoidal) return add_sinusoidal(x, halves);
  if (config.position != model::PositionKind::learned) return;
  std::vector<float> row(x.cols);
  const bool counts = config.counts_visible && !sequence.key_visible.empty();
  const bool pads = config.padding && !sequence.ids.empty();
  std::size_t next = config.position_offset;
  for (std::size_t p = 0; p < x.rows; ++p) {
    if (counts && sequence.key_visible[p] == 0) {
      weights.position.row(config.position_offset - 1, row);
    } else if (!counts && pads && std::cmp_equal(sequence.ids[p], *config.padding)) {
      weights.position.row(*config.padding, row);
    } else {
      weights.position.row(next++, row);
    }
    linalg::kernels().add(row, x.row(p));
  }
}

void scale_logits(const model::HeadConfig& config, std::span<float> logits) {
  if (config.multiplier != 1) linalg::kernels().scale(double{config.multiplier}, logits);
  if (config.soft_cap == 0) return;
  linalg::kernels().scale(1 / double{config.soft_cap}, logits);
  linalg::kernels().tanh(logits);
  linalg::kernels().scale(double{config.soft_cap}, logits);
}

}  // namespace

void embed(Pool& pool, const model::Model& model, const input::Batch& batch, const Block& block,
           MatrixView<float> x) {
  const bool for_target = needs_target(block.component);
  const model::EmbeddingConfig& config =
      for_target ? model.config().decoder->embedding : model.config().embedding;
  const model::Lease<model::EmbeddingWeights> lease =
      for_target ? model.target_embedding() : model.embedding();
  const model::EmbeddingWeights& weights = *lease;
  const bool projected = weights.projection.present();
  OwnedMatrix<float> narrow(projected ? x.rows : 0, model.config().embedding.width);
  const MatrixView<float> sum = projected ? narrow.view() : x;
  const auto for_each_sequence = [&](MatrixView<float> all, const auto& work) {
    for (const BlockSequence& place : block.sequences) {
      work(sides_of(block.component, batch.sequences[place.index]).queries_of,
           all.row_range(place.first_query, place.queries));
    }
  };
  for_each_sequence(sum, [&](const input::Sequence& sequence, MatrixView<float> rows) {
    if (sequence.patches.rows() > 0)
      run_dense(pool, Dense{sequence.patches.view(), weights.patches, rows.row_range(1, rows.rows - 1)});
    embed_tokens(config, weights, sequence, rows);
    if (!config.positions_last) add_positions(config, weights, sequence, rows);
  });
  if (!config.projected_first) apply_norm(pool, config.norm, weights.norm, sum, sum);
  if (projected) run_dense(pool, Dense{sum, weights.projection, x});
  if (config.projected_first) apply_norm(pool, config.norm, weights.norm, x, x);
  for_each_sequence(x, [&](const input::Sequence& sequence, MatrixView<float> rows) {
    if (config.positions_last) add_positions(config, weights, sequence, rows);
    if (!config.zero_hidden || sequence.key_visible.size() != rows.rows) return;
    for (std::size_t p = 0; p < rows.rows; ++p) {
      if (sequence.key_visible[p] == 0) std::ranges::fill(rows.row(p), 0.0F);
    }
  });
}

std::size_t logits_rows(std::size_t vocabulary) {
  constexpr std::size_t kMostElements = std::size_t{1} << 21U;  // 8 MiB of logits
  constexpr std::size_t kFewestRows = 16;
  return std::max(kFewestRows, kMostElements / std::max<std::size_t>(vocabulary, 1));
}

MatrixView<const float> logits_of(Pool& pool, const model::Model& model, HeadBuffers& buffers,
                                  MatrixView<const float> x) {
  const model::HeadConfig& config = model.config().head;
  const model::Lease<model::HeadWeights> lease = model.head(nullptr, model::WeightForm::stored);
  const model::HeadWeights& weights = *lease;
  MatrixView<float> stream = buffers.normed.take(x.rows, x.cols);
  apply_norm(pool, model.config().final_norm, model.final_norm(), x, stream);
  if (weights.projection.present()) {
    const MatrixView<float> out = buffers.projected.take(x.rows, weights.projection.out());
    run_dense(pool, Dense{stream, weights.projection, out});
    stream = out;
  }
  if (config.transform) {
    const MatrixView<float> out = buffers.transformed.take(x.rows, weights.transform.out());
    run_dense(pool, Dense{stream, weights.transform, out, config.activation});
    apply_norm(pool, config.norm, weights.transform_norm, out, out);
    stream = out;
  }
  const MatrixView<float> logits = buffers.logits.take(x.rows, weights.decoder.out());
  run_dense(pool, Dense{stream, weights.decoder, logits});
  for_rows(pool, logits.rows, logits.cols, [&](std::size_t r) { scale_logits(config, logits.row(r)); });
  return logits;
}

}  // namespace attnctl::forward

#include <cstdint>
#include <vector>

#include "reference/reference_math.hpp"

namespace attnctl::reference {
namespace {

/// x[r, :] += row `index` of a table.
void add_row(const LookupTable& table, std::size_t index, OwnedMatrix<double>& x, std::size_t r) {
  std::vector<float> row(table.width());
  table.row(index, row);
  for (std::size_t c = 0; c < row.size(); ++c) x(r, c) += row[c];
}

void drop_tokens(const TokenDropout& dropout, const Sequence& sequence, OwnedMatrix<double>& x) {
  double dropped = 0;
  double length = 0;
  for (std::size_t r = 0; r < x.rows(); ++r) {
    if (sequence.ids[r] == dropout.token) ++dropped;
    if (sequence.key_visible.empty() || sequence.key_visible[r] != 0) ++length;
  }
  for (std::size_t r = 0; r < x.rows(); ++r) {
    for (double& value : x.view().row(r)) {
      if (sequence.ids[r] == dropout.token) value = 0;
      value = value * dropout.kept / (1 - dropped / length);
    }
  }
}

}  // namespace

OwnedMatrix<double> widened(const OwnedMatrix<float>& values) {
  OwnedMatrix<double> out(values.rows(), values.cols());
  for (std::size_t i = 0; i < values.values().size(); ++i) out.values()[i] = values.values()[i];
  return out;
}

/// A class token, and the convolution over each patch.
OwnedMatrix<double> patch_embeddings(const EmbeddingWeights& weights, const OwnedMatrix<float>& patches) {
  const MatrixView<const float> kernels = weights.patches.stored;  // [width, pixels of a patch]
  OwnedMatrix<double> x(patches.rows() + 1, kernels.rows);
  add_row(weights.class_token, 0, x, 0);
  for (std::size_t patch = 0; patch < patches.rows(); ++patch) {
    for (std::size_t c = 0; c < kernels.rows; ++c) {
      double sum = weights.patches.bias[c];
      for (std::size_t i = 0; i < kernels.cols; ++i)
        sum += static_cast<double>(kernels(c, i)) * static_cast<double>(patches(patch, i));
      x(patch + 1, c) = sum;
    }
  }
  return x;
}

OwnedMatrix<double> token_embeddings(const Embedding& embedding, const Sequence& sequence) {
  if (sequence.patches.rows() > 0) return patch_embeddings(embedding.weights, sequence.patches);
  if (sequence.ids.empty()) return widened(sequence.embeddings);
  OwnedMatrix<double> x(sequence.ids.size(), embedding.config.width);
  for (std::size_t r = 0; r < x.rows(); ++r)
    add_row(embedding.weights.token, static_cast<std::size_t>(sequence.ids[r]), x, r);
  for (double& value : x.values()) value *= embedding.config.multiplier;
  if (embedding.config.dropout) drop_tokens(*embedding.config.dropout, sequence, x);
  return x;
}

namespace {

void add_positions(const Embedding& embedding, const Sequence& sequence, OwnedMatrix<double>& x) {
  const auto& [config, weights] = embedding;
  std::size_t left_out = 0;  // tokens without a position so far
  for (std::size_t r = 0; r < x.rows(); ++r) {
    if (config.position == PositionKind::learned) {
      const bool padding = config.padding && !sequence.ids.empty() &&
                           sequence.ids[r] == static_cast<std::int64_t>(*config.padding);
      const bool hidden =
          config.counts_visible && !sequence.key_visible.empty() && sequence.key_visible[r] == 0;
      if (padding || hidden) ++left_out;
      std::size_t row = r - left_out + config.position_offset;
      if (padding) row = *config.padding;
      if (hidden) row = config.position_offset - 1;
      add_row(weights.position, row, x, r);
    }
    if (config.position == PositionKind::sinusoidal) {
      for (std::size_t c = 0; c < x.cols(); ++c) x(r, c) += sinusoid(r, c, x.cols());
    }
    if (config.position == PositionKind::sinusoidal_halves) {
      const std::size_t sines = (x.cols() + 1) / 2;
      for (std::size_t c = 0; c < x.cols(); ++c) {
        const std::size_t beside = c < sines ? 2 * c : 2 * (c - sines) + 1;  // where `sinusoid` has it
        x(r, c) += static_cast<double>(static_cast<float>(sinusoid(r, beside, x.cols())));
      }
    }
  }
}

}  // namespace

OwnedMatrix<double> embedding_sum(const Embedding& embedding, const Sequence& sequence) {
  const auto& [config, weights] = embedding;
  OwnedMatrix<double> x = token_embeddings(embedding, sequence);
  if (!config.positions_last) add_positions(embedding, sequence, x);
  for (std::size_t r = 0; r < x.rows(); ++r) {
    if (config.token_types > 0) {
      const auto type = sequence.token_type_ids.empty() ? 0 : sequence.token_type_ids[r];
      add_row(weights.token_type, static_cast<std::size_t>(type), x, r);
    }
  }
  return x;
}

OwnedMatrix<double> embed(const Embedding& embedding, const Sequence& sequence, Pool& pool) {
  const auto& [config, weights] = embedding;
  OwnedMatrix<double> x = embedding_sum(embedding, sequence);
  const bool normed = config.norm.kind != NormKind::none;
  if (normed && !config.projected_first) x = apply(config.norm, weights.norm, x.view());
  if (weights.projection.present()) x = apply(weights.projection, x.view(), pool);
  if (normed && config.projected_first) x = apply(config.norm, weights.norm, x.view());
  if (config.positions_last) add_positions(embedding, sequence, x);
  for (std::size_t r = 0; r < x.rows() && config.zero_hidden && !sequence.key_visible.empty(); ++r) {
    if (sequence.key_visible[r] != 0) continue;
    for (double& value : x.view().row(r)) value = 0;
  }
  return x;
}

}  // namespace attnctl::reference

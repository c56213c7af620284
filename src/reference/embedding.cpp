#include "reference/embedding.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/layers.hpp"

namespace attnctl::reference {
namespace {

/// x[r, :] += row `index` of a table.
void add_row(const LookupTable& table, std::size_t index, Matrix& x, std::size_t r) {
  std::vector<float> row(table.width());
  table.row(index, row);
  xt::row(x, static_cast<std::ptrdiff_t>(r)) += linalg::to_vector(row);
}

bool hidden(const Sequence& sequence, std::size_t r) {
  return !sequence.key_visible.empty() && sequence.key_visible[r] == 0;
}

/// Zeroes the dropped token and scales all others by kept / (1 - its share of the visible tokens).
void drop_tokens(const TokenDropout& dropout, const Sequence& sequence, Matrix& x) {
  double dropped = 0;
  double visible = 0;
  for (std::size_t r = 0; r < x.shape(0); ++r) {
    if (!hidden(sequence, r)) ++visible;
    if (sequence.ids[r] != dropout.token) continue;
    ++dropped;
    xt::row(x, static_cast<std::ptrdiff_t>(r)) = 0;
  }
  x *= dropout.kept / (1 - dropped / visible);
}

/// Returns the class token, then each patch times the convolution's kernel [1 + patches, width].
Matrix patch_embeddings(const EmbeddingWeights& weights, const OwnedMatrix<float>& patches) {
  const Matrix kernel = linalg::to_matrix(weights.patches.stored);  // [width, pixels of a patch]
  Matrix x = xt::zeros<double>({patches.rows() + 1, kernel.shape(0)});
  add_row(weights.class_token, 0, x, 0);
  xt::view(x, xt::range(1, patches.rows() + 1), xt::all()) =
      linalg::dot(linalg::to_matrix(patches.view()), xt::transpose(kernel)) +
      linalg::to_vector(weights.patches.bias);
  return x;
}

void add_learned_positions(const Embedding& embedding, const Sequence& sequence, Matrix& x) {
  const EmbeddingConfig& config = embedding.config;
  const EmbeddingWeights& weights = embedding.weights;
  std::size_t skipped = 0;  // tokens so far that are not counted
  for (std::size_t r = 0; r < x.shape(0); ++r) {
    const bool padding = config.padding && !sequence.ids.empty() &&
                         sequence.ids[r] == static_cast<std::int64_t>(*config.padding);
    const bool uncounted = config.counts_visible && hidden(sequence, r);
    if (padding || uncounted) ++skipped;
    std::size_t row = r - skipped + config.position_offset;
    if (padding) row = *config.padding;
    if (uncounted) row = config.position_offset - 1;
    add_row(weights.position, row, x, r);
  }
}

/// PE(p, 2i) = sin(p / 10000^(2i/d)) and PE(p, 2i + 1) = cos of the same angle: [n, d].
Matrix sinusoids(std::size_t length, std::size_t width) {
  Matrix table = Matrix::from_shape({length, width});
  for (std::size_t p = 0; p < length; ++p) {
    for (std::size_t c = 0; c < width; ++c) {
      const double exponent = static_cast<double>(c - c % 2) / static_cast<double>(width);
      const double angle = static_cast<double>(p) / std::pow(10000.0, exponent);
      table(p, c) = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return table;
}

void add_positions(const Embedding& embedding, const Sequence& sequence, Matrix& x) {
  const PositionKind kind = embedding.config.position;
  if (kind == PositionKind::learned) add_learned_positions(embedding, sequence, x);
  if (kind == PositionKind::sinusoidal) x += sinusoids(x.shape(0), x.shape(1));
  if (kind == PositionKind::sinusoidal_halves) {
    const std::size_t width = x.shape(1);
    const std::size_t sines = (width + 1) / 2;
    const xt::xtensor<float, 2> table = xt::cast<float>(sinusoids(x.shape(0), width));
    xt::view(x, xt::all(), xt::range(0, sines)) += xt::view(table, xt::all(), xt::range(0, width, 2));
    xt::view(x, xt::all(), xt::range(sines, width)) += xt::view(table, xt::all(), xt::range(1, width, 2));
  }
}

}  // namespace

Matrix token_embeddings(const Embedding& embedding, const Sequence& sequence) {
  if (sequence.patches.rows() > 0) return patch_embeddings(embedding.weights, sequence.patches);
  if (sequence.ids.empty()) return linalg::to_matrix(sequence.embeddings.view());
  Matrix x = xt::zeros<double>({sequence.ids.size(), embedding.config.width});
  for (std::size_t r = 0; r < x.shape(0); ++r)
    add_row(embedding.weights.token, static_cast<std::size_t>(sequence.ids[r]), x, r);
  x *= embedding.config.multiplier;
  if (embedding.config.dropout) drop_tokens(*embedding.config.dropout, sequence, x);
  return x;
}

Matrix embedding_sum(const Embedding& embedding, const Sequence& sequence) {
  const EmbeddingConfig& config = embedding.config;
  const EmbeddingWeights& weights = embedding.weights;
  Matrix x = token_embeddings(embedding, sequence);
  if (!config.positions_last) add_positions(embedding, sequence, x);
  for (std::size_t r = 0; r < x.shape(0) && config.token_types > 0; ++r) {
    const std::int64_t type = sequence.token_type_ids.empty() ? 0 : sequence.token_type_ids[r];
    add_row(weights.token_type, static_cast<std::size_t>(type), x, r);
  }
  return x;
}

Matrix embed(const Embedding& embedding, const Sequence& sequence, Pool& pool) {
  const EmbeddingConfig& config = embedding.config;
  const EmbeddingWeights& weights = embedding.weights;
  Matrix x = embedding_sum(embedding, sequence);
  if (!config.projected_first) x = apply(config.norm, weights.norm, x);
  if (weights.projection.present()) x = apply(weights.projection, x, pool);
  if (config.projected_first) x = apply(config.norm, weights.norm, x);
  if (config.positions_last) add_positions(embedding, sequence, x);
  for (std::size_t r = 0; r < x.shape(0) && config.zero_hidden; ++r) {
    if (hidden(sequence, r)) xt::row(x, static_cast<std::ptrdiff_t>(r)) = 0;
  }
  return x;
}

}  // namespace attnctl::reference

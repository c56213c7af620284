#include "reference/layers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace attnctl::reference {
namespace {

void add_row(const model::LookupTable& table, std::size_t index, Matrix& x, std::size_t r) {
  std::vector<float> row(table.width());
  table.row(index, row);
  xt::row(x, static_cast<std::ptrdiff_t>(r)) += linalg::to_vector(row);
}

bool hidden(const input::Sequence& sequence, std::size_t r) {
  return !sequence.key_visible.empty() && sequence.key_visible[r] == 0;
}

/// Sets the embeddings of the dropped token to zero, and multiplies the others by kept / (1 - s), where s is
/// the number of dropped tokens divided by the number of visible tokens.
void drop_tokens(const model::TokenDropout& dropout, const input::Sequence& sequence, Matrix& x) {
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

/// Returns the embeddings of an image [1 + patches, width]: the class token, then the projected patches.
Matrix patch_embeddings(const model::EmbeddingWeights& weights, const OwnedMatrix<float>& patches) {
  const Matrix kernel = linalg::to_matrix(weights.patches.stored);  // [width, pixels of a patch]
  Matrix x = xt::zeros<double>({patches.rows() + 1, kernel.shape(0)});
  add_row(weights.class_token, 0, x, 0);
  xt::view(x, xt::range(1, patches.rows() + 1), xt::all()) =
      linalg::dot(linalg::to_matrix(patches.view()), xt::transpose(kernel)) +
      linalg::to_vector(weights.patches.bias);
  return x;
}

void add_learned_positions(const Embedding& embedding, const input::Sequence& sequence, Matrix& x) {
  const model::EmbeddingConfig& config = embedding.config;
  std::size_t skipped = 0;  // number of tokens so far that are not counted
  for (std::size_t r = 0; r < x.shape(0); ++r) {
    const bool padding = config.padding && !sequence.ids.empty() &&
                         sequence.ids[r] == static_cast<std::int64_t>(*config.padding);
    const bool uncounted = config.counts_visible && hidden(sequence, r);
    if (padding || uncounted) ++skipped;
    std::size_t row = r - skipped + config.position_offset;
    if (padding) row = *config.padding;
    if (uncounted) row = config.position_offset - 1;
    add_row(embedding.weights->position, row, x, r);
  }
}

/// Returns a table [length, width] of position vectors: sin(p / 10000^(2i/width)) at (p, 2i), and the cosine
/// of the same angle at (p, 2i + 1).
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

void add_positions(const Embedding& embedding, const input::Sequence& sequence, Matrix& x) {
  const model::PositionKind kind = embedding.config.position;
  if (kind == model::PositionKind::learned) add_learned_positions(embedding, sequence, x);
  if (kind == model::PositionKind::sinusoidal) x += sinusoids(x.shape(0), x.shape(1));
  if (kind == model::PositionKind::sinusoidal_halves) {
    const std::size_t width = x.shape(1);
    const std::size_t sines = (width + 1) / 2;
    const xt::xtensor<float, 2> table = xt::cast<float>(sinusoids(x.shape(0), width));
    xt::view(x, xt::all(), xt::range(0, sines)) += xt::view(table, xt::all(), xt::range(0, width, 2));
    xt::view(x, xt::all(), xt::range(sines, width)) += xt::view(table, xt::all(), xt::range(1, width, 2));
  }
}

}  // namespace

Matrix weight_of(const model::Linear& linear) {
  return linalg::to_matrix(linear.in_out_double().view());
}

Matrix apply(const model::Linear& linear, const Matrix& x, Pool& pool) {
  if (linear.factorised()) return apply(linear.last_product(), apply(linear.first_product(), x, pool), pool);
  // Number of outputs per task. Each task converts only its part of W to float64.
  constexpr std::size_t kBlock = 64;
  Matrix y = Matrix::from_shape({x.shape(0), linear.out()});
  pool.run((linear.out() + kBlock - 1) / kBlock, [&](std::size_t block, std::size_t) {
    const std::size_t first = block * kBlock;
    const model::Linear part = linear.outputs(first, std::min(kBlock, linear.out() - first));
    auto outputs = xt::view(y, xt::all(), xt::range(first, first + part.out()));
    outputs = linalg::dot(x, weight_of(part));
    if (!part.bias.empty()) outputs += linalg::to_vector(part.bias);
  });
  return y;
}

NormalisedRows normalise(const model::NormConfig& config, const Matrix& x) {
  Matrix centred = x;
  if (config.kind == model::NormKind::layer) centred -= linalg::row_mean(x);
  const Matrix variance = linalg::row_mean(xt::square(centred));
  const Matrix deviation = xt::sqrt(variance + double{config.eps});
  return {centred / deviation, deviation};
}

Vector gain_of(const model::NormWeights& weights, std::size_t width) {
  return weights.gain.empty() ? Vector(xt::ones<double>({width})) : linalg::to_vector(weights.gain);
}

Matrix apply(const model::NormConfig& config, const model::NormWeights& weights, const Matrix& x) {
  if (config.kind == model::NormKind::none) return x;
  Matrix y = normalise(config, x).values * gain_of(weights, x.shape(1));
  if (!weights.bias.empty()) y += linalg::to_vector(weights.bias);
  return y;
}

Matrix activate(model::Activation activation, const Matrix& x) {
  switch (activation) {
    case model::Activation::gelu_erf:
      return 0.5 * x * (1 + xt::erf(x / std::numbers::sqrt2));
    case model::Activation::gelu_tanh:
      return 0.5 * x * (1 + xt::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case model::Activation::silu:
      return x / (1 + xt::exp(-x));
    case model::Activation::relu:
      return xt::where(x < 0, 0.0, x);  // NaN stays NaN
    case model::Activation::relu_squared:
      return xt::where(x < 0, 0.0, x * x);
    case model::Activation::tanh:
      return xt::tanh(x);
  }
  return x;
}

Matrix run_one_mlp(const model::MlpConfig& config, const model::ExpertsConfig& experts,
                   const model::MlpWeights& weights, const Matrix& x, Pool& pool) {
  const Matrix up = apply(weights.up, x, pool);
  if (!config.gated) return apply(weights.down, activate(config.activation, up), pool);
  const Matrix gate = apply(weights.gate, x, pool);
  const double limit = experts.limit;
  if (limit == 0) return apply(weights.down, up * activate(config.activation, gate), pool);
  const Matrix g = xt::minimum(limit, gate);
  return apply(weights.down, (xt::clip(up, -limit, limit) + 1) * g / (1 + xt::exp(-experts.alpha * g)), pool);
}

Matrix expert_weights(const model::ExpertsConfig& config, const Matrix& scores) {
  Matrix weights = xt::exp(scores - linalg::row_max(scores));
  weights /= linalg::row_sum(weights);
  for (std::size_t r = 0; r < scores.shape(0); ++r) {
    for (std::size_t e = 0; e < config.count; ++e) {
      std::size_t better = 0;
      for (std::size_t other = 0; other < config.count; ++other) {
        if (scores(r, other) > scores(r, e) || (scores(r, other) == scores(r, e) && other < e)) ++better;
      }
      if (better >= config.per_token) weights(r, e) = 0;
    }
  }
  // The softmax over the chosen experts is the softmax over all experts, divided by its sum over the chosen.
  if (config.renormalised || config.softmax_after_topk) weights /= linalg::row_sum(weights);
  return weights;
}

Matrix run_mlp(const model::LayerConfig& config, const model::LayerWeights& weights, const Matrix& x,
               Pool& pool) {
  if (config.experts.count == 0) return run_one_mlp(config.mlp, {}, weights.mlp, x, pool);
  const Matrix shares = expert_weights(config.experts, apply(weights.router, x, pool));
  Matrix sum = xt::zeros<double>(x.shape());
  for (std::size_t e = 0; e < config.experts.count; ++e) {
    sum += xt::view(shares, xt::all(), xt::range(e, e + 1)) *
           run_one_mlp(config.mlp, config.experts, weights.experts[e], x, pool);
  }
  if (config.experts.shared_width > 0) {
    sum += run_one_mlp(config.mlp, {}, weights.shared, x, pool) /
           (1 + xt::exp(-apply(weights.shared_factor, x, pool)));
  }
  return sum;
}

Matrix convolve(const model::ConvolutionConfig& config, const model::Linear& convolution,
                const Matrix& embeddings) {
  const std::size_t length = embeddings.shape(0);
  const std::size_t channels = embeddings.shape(1) / config.groups;
  const std::size_t side = (config.kernel - 1) / 2;
  const Matrix filter = weight_of(convolution);  // [input channels of a group * kernel, d]
  Matrix padded = xt::zeros<double>({length + 2 * side, embeddings.shape(1)});
  xt::view(padded, xt::range(side, side + length), xt::all()) = embeddings;
  Matrix sum = xt::broadcast(linalg::to_vector(convolution.bias), embeddings.shape());
  for (std::size_t group = 0; group < config.groups; ++group) {
    const auto columns = [&] { return xt::range(group * channels, (group + 1) * channels); };
    for (std::size_t t = 0; t < config.kernel; ++t) {
      xt::view(sum, xt::all(), columns()) +=
          linalg::dot(xt::view(padded, xt::range(t, t + length), columns()),
                      xt::view(filter, xt::range(t, channels * config.kernel, config.kernel), columns()));
    }
  }
  return sum;
}

Matrix add_convolution(const model::LayerConfig& config, const model::LayerWeights& weights,
                       const Matrix& embeddings, const Matrix& x) {
  if (!config.convolution) return x;
  const Matrix sum = convolve(*config.convolution, weights.convolution, embeddings);
  return apply(config.norm, weights.convolution_norm, x + activate(config.convolution->activation, sum));
}

bool reads_normalised(model::NormPlace place) {
  return place == model::NormPlace::pre || place == model::NormPlace::both;
}

Matrix residual_term(const model::LayerConfig& config, Matrix output, const model::NormWeights& norm,
                     const model::NormWeights& output_norm, const Edit& edit) {
  if (config.place == model::NormPlace::output) output = apply(config.norm, norm, output);
  if (config.place == model::NormPlace::both) output = apply(config.norm, output_norm, output);
  apply(edit, output);
  return double{config.residual_multiplier} * output;
}

Matrix token_embeddings(const Embedding& embedding, const input::Sequence& sequence) {
  if (sequence.patches.rows() > 0) return patch_embeddings(*embedding.weights, sequence.patches);
  if (sequence.ids.empty()) return linalg::to_matrix(sequence.embeddings.view());
  Matrix x = xt::zeros<double>({sequence.ids.size(), embedding.config.width});
  for (std::size_t r = 0; r < x.shape(0); ++r)
    add_row(embedding.weights->token, static_cast<std::size_t>(sequence.ids[r]), x, r);
  x *= embedding.config.multiplier;
  if (embedding.config.dropout) drop_tokens(*embedding.config.dropout, sequence, x);
  return x;
}

Matrix embedding_sum(const Embedding& embedding, const input::Sequence& sequence) {
  const model::EmbeddingConfig& config = embedding.config;
  Matrix x = token_embeddings(embedding, sequence);
  if (!config.positions_last) add_positions(embedding, sequence, x);
  for (std::size_t r = 0; r < x.shape(0) && config.token_types > 0; ++r) {
    const std::int64_t type = sequence.token_type_ids.empty() ? 0 : sequence.token_type_ids[r];
    add_row(embedding.weights->token_type, static_cast<std::size_t>(type), x, r);
  }
  return x;
}

void clear_hidden(const model::EmbeddingConfig& config, const input::Sequence& sequence, Matrix& x) {
  for (std::size_t r = 0; r < x.shape(0) && config.zero_hidden; ++r) {
    if (hidden(sequence, r)) xt::row(x, static_cast<std::ptrdiff_t>(r)) = 0;
  }
}

Matrix embed(const Embedding& embedding, const input::Sequence& sequence, Pool& pool) {
  const model::EmbeddingConfig& config = embedding.config;
  Matrix x = embedding_sum(embedding, sequence);
  if (!config.projected_first) x = apply(config.norm, embedding.weights->norm, x);
  if (embedding.weights->projection.present()) x = apply(embedding.weights->projection, x, pool);
  if (config.projected_first) x = apply(config.norm, embedding.weights->norm, x);
  if (config.positions_last) add_positions(embedding, sequence, x);
  clear_hidden(config, sequence, x);
  return x;
}

}  // namespace attnctl::reference

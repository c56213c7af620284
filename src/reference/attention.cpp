#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "reference/layers.hpp"

namespace attnctl::reference {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

bool kind_shows(const model::AttentionKind& kind, std::size_t query, std::size_t key) {
  const std::size_t distance = query > key ? query - key : key - query;
  switch (kind.rule) {
    case model::AttentionKind::Rule::window:
      return distance < kind.size;
    case model::AttentionKind::Rule::block:
      return query / kind.size == key / kind.size;
    case model::AttentionKind::Rule::strided:
      return distance < kind.size || distance % kind.size == 0;
    case model::AttentionKind::Rule::full:
    case model::AttentionKind::Rule::linear:
      break;
  }
  return true;
}

/// Returns the mask [n, m] that is added to the scores: -inf for hidden keys, otherwise 0, or the values of
/// the score mask of the sequence, which is used instead of the causal mask.
Matrix mask_of(const model::AttentionConfig& config, const input::Sequence& sequence, std::size_t head,
               std::size_t queries, std::size_t keys) {
  const bool causal = sequence.causal.value_or(config.causal);
  Matrix mask = xt::zeros<double>({queries, keys});
  for (std::size_t i = 0; i < queries; ++i) {
    for (std::size_t j = 0; j < keys; ++j) {
      const bool visible = sequence.key_visible.empty() || sequence.key_visible[j] != 0;
      const bool later = !sequence.mask && causal && j > i;
      if (!visible || later || !kind_shows(config.kind, i, j)) {
        mask(i, j) = kHidden;
      } else if (sequence.mask) {
        const std::size_t plane = sequence.mask->heads == 1 ? 0 : head;
        mask(i, j) = sequence.mask->added[(plane * queries + i) * keys + j];
      }
    }
  }
  return mask;
}

/// Returns the bfloat16 nearest to a number; of two equally near ones the even one.
double round_to_bfloat16(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
}

/// Returns the ALiBi term slope * position of each key [m]; if alibi.rounded, this in bfloat16 * the scale.
Vector alibi(const model::AttentionConfig& config, const input::Sequence& sequence, std::size_t head) {
  const model::AlibiConfig& alibi = *config.alibi;
  const double slope = alibi.slopes[head];
  Vector bias = xt::zeros<double>({sequence.keys()});
  double counted = 0;
  for (std::size_t j = 0; j < bias.size(); ++j) {
    const bool counts = !alibi.counts_visible || sequence.key_visible.empty() || sequence.key_visible[j] != 0;
    double position = counts ? counted++ : 0;
    if (alibi.from_last) position -= static_cast<double>(bias.size() - 1);
    bias(j) = alibi.rounded
                  ? config.scale * round_to_bfloat16(round_to_bfloat16(slope) * round_to_bfloat16(position))
                  : slope * position;
  }
  return bias;
}

/// Returns the T5 bucket for `distance` = key position - query position. Small distances have one bucket
/// each, and larger distances share buckets on a logarithmic scale up to max_distance. If
/// config.bidirectional is false, all keys after the query use bucket 0. Rounds to float32 where the original
/// implementation does, because a rounding error can change the bucket.
std::size_t relative_bucket(const model::RelativeBuckets& config, std::int64_t distance) {
  if (distance > 0 && !config.bidirectional) return 0;
  const std::size_t side = config.bidirectional ? config.buckets / 2 : config.buckets;
  const std::size_t first = distance > 0 ? side : 0;
  const auto size = static_cast<std::size_t>(std::abs(distance));
  const std::size_t exact = side / 2;
  if (size < exact) return first + size;
  const auto range =
      static_cast<float>(std::log(static_cast<double>(config.max_distance) / static_cast<double>(exact)));
  const float ratio = std::log(static_cast<float>(size) / static_cast<float>(exact)) / range;
  return first +
         std::min(side - 1, exact + static_cast<std::size_t>(ratio * static_cast<float>(side - exact)));
}

/// The data that all heads of a layer share.
struct LayerInput {
  const model::AttentionConfig& config;
  const model::AttentionWeights& weights;
  const input::Sequence& sequence;
  Matrix q, k, v;  // [n, query_slices k], [m, kv_heads k], [m, kv_heads v] or empty
  DistanceTables distances;
};

/// Returns the sum [n, m] of the terms that ALiBi, T5 buckets and disentangled attention add to the scores.
Matrix position_bias(const LayerInput& layer, std::size_t head, const Matrix& q, const Matrix& k) {
  const model::AttentionConfig& config = layer.config;
  Matrix bias = xt::zeros<double>({q.shape(0), k.shape(0)});
  const auto add = [&](const auto& term_of) {
    for (std::size_t i = 0; i < bias.shape(0); ++i) {
      for (std::size_t j = 0; j < bias.shape(1); ++j)
        bias(i, j) += term_of(i, j, static_cast<std::int64_t>(i) - static_cast<std::int64_t>(j));
    }
  };
  if (config.relative_buckets) {
    add([&](std::size_t, std::size_t, std::int64_t distance) {
      return layer.weights.relative_bias(relative_bucket(*config.relative_buckets, -distance), head);
    });
  }
  const auto times = [&](const Matrix& x, const Matrix& distances) {
    return linalg::dot(x, xt::transpose(head_columns(distances, head, config.d_head)));  // [x rows, 2 span]
  };
  if (layer.distances.keys.size() > 0) {
    const Matrix product = times(q, layer.distances.keys);
    add([&](std::size_t i, std::size_t, std::int64_t distance) {
      return config.scale * product(i, distance_row(*config.disentangled, distance));
    });
  }
  if (layer.distances.queries.size() > 0) {
    const Matrix product = times(k, layer.distances.queries);
    add([&](std::size_t, std::size_t j, std::int64_t distance) {
      return config.scale * product(j, distance_row(*config.disentangled, distance));
    });
  }
  if (config.alibi) bias += alibi(config, layer.sequence, head);
  return bias;
}

/// Returns the scores scale q k^T [n, m], with the soft cap if the model has one. For linear attention
/// returns ln(phi(q) phi(k)^T), because its softmax is the pattern.
Matrix score(const model::AttentionConfig& config, const Matrix& q, const Matrix& k) {
  if (config.kind.rule == model::AttentionKind::Rule::linear)
    return xt::log(linalg::dot(linear_features(q), xt::transpose(linear_features(k))));
  Matrix scores = config.scale * linalg::dot(q, xt::transpose(k));
  if (config.soft_cap == 0) return scores;
  return double{config.soft_cap} * xt::tanh(scores / double{config.soft_cap});
}

/// Returns exp(s_j) / (sum of exp(s) + exp(sink)) for each row s; zeros if all scores of a row are -inf.
Matrix softmax(const Matrix& scores, double sink = kHidden) {
  const double at_least = std::max(sink, std::numeric_limits<double>::lowest());
  const Matrix largest = xt::maximum(linalg::row_max(scores), at_least);
  const Matrix weights = xt::exp(scores - largest);
  const Matrix sum = linalg::row_sum(weights) + xt::exp(sink - largest);
  return weights / xt::where(xt::equal(sum, 0.0), 1.0, sum);
}

/// Returns pattern v [n, d_value]. Skips hidden keys, so their values may be NaN or infinite.
Matrix weighted_values(const Matrix& pattern, const Matrix& scores, const Matrix& v) {
  if (xt::all(xt::isfinite(v))) return linalg::dot(pattern, v);
  Matrix z = xt::zeros<double>({pattern.shape(0), v.shape(1)});
  for (std::size_t i = 0; i < pattern.shape(0); ++i) {
    for (std::size_t j = 0; j < pattern.shape(1); ++j) {
      if (scores(i, j) != kHidden) xt::view(z, i, xt::all()) += pattern(i, j) * xt::view(v, j, xt::all());
    }
  }
  return z;
}

/// Returns the queries or the keys of one head [n, k], normalised and rotated if the model does so.
Matrix head_of(const LayerInput& layer, const Matrix& projection, std::size_t index,
               const model::NormWeights& norm) {
  const model::AttentionConfig& config = layer.config;
  Matrix x = head_columns(projection, index, config.d_head);
  if (config.head_norm_span != model::HeadNormSpan::whole)
    x = apply(config.head_norm, norm_of_head(config, norm, index), x);
  return config.rotary ? rotate(*config.rotary, layer.q.shape(0), x) : x;
}

/// Stores the scores, the pattern and z of one head in `out`. Returns z [n, d_value]; empty without W_V.
Matrix attend_head(const LayerInput& layer, std::size_t head, ReferenceLayer& out) {
  const model::AttentionConfig& config = layer.config;
  const std::size_t kv_head = config.kv_head(head);
  const Matrix q = head_of(layer, layer.q, config.query_slice(head), layer.weights.query_norm);
  const Matrix k = head_of(layer, layer.k, kv_head, layer.weights.key_norm);
  const Matrix mask = mask_of(config, layer.sequence, head, q.shape(0), k.shape(0));
  const Matrix scores = xt::where(xt::equal(mask, kHidden), kHidden,
                                  score(config, q, k) + position_bias(layer, head, q, k) + mask);
  const Matrix pattern = softmax(scores, config.sinks ? double{layer.weights.sinks[head]} : kHidden);
  out.scores[head] = linalg::to_owned(scores);
  out.pattern[head] = linalg::to_owned(pattern);
  if (layer.v.size() == 0) return {};
  Matrix z = weighted_values(pattern, scores, head_columns(layer.v, kv_head, config.d_value));
  out.z[head] = linalg::to_owned(z);
  return z;
}

}  // namespace

std::size_t distance_row(const model::DisentangledConfig& config, std::int64_t distance) {
  const auto span = static_cast<std::int64_t>(config.span);
  const std::int64_t half = span / 2;
  std::int64_t step = distance;
  if (config.logarithmic && std::abs(distance) > half) {
    const auto range = std::log(
        static_cast<float>(static_cast<double>(config.max_distance - 1) / static_cast<double>(half)));
    const float ratio = std::log(static_cast<float>(std::abs(distance)) / static_cast<float>(half)) / range;
    step = static_cast<std::int64_t>(std::ceil(ratio * static_cast<float>(half - 1))) + half;
    if (distance < 0) step = -step;
  }
  return static_cast<std::size_t>(std::clamp<std::int64_t>(step + span, 0, 2 * span - 1));
}

model::NormWeights norm_of_head(const model::AttentionConfig& config, const model::NormWeights& norm,
                                std::size_t index) {
  if (config.head_norm_span == model::HeadNormSpan::shared) return norm;
  model::NormWeights part;
  if (!norm.gain.empty()) part.gain = norm.gain.subspan(index * config.d_head, config.d_head);
  if (!norm.bias.empty()) part.bias = norm.bias.subspan(index * config.d_head, config.d_head);
  return part;
}

Matrix linear_features(const Matrix& x) {
  return xt::where(x > 0, x + 1, xt::exp(x));
}

DistanceTables distance_tables(const model::AttentionConfig& config, const model::AttentionWeights& weights,
                               Pool& pool) {
  DistanceTables tables;
  if (!config.disentangled) return tables;
  const auto& [table, norm, key, query] = weights.disentangled;
  const Matrix distances = apply(config.disentangled->norm, norm, linalg::to_matrix(table));
  if (config.disentangled->content_to_position) tables.keys = apply(key, distances, pool);
  if (config.disentangled->position_to_content) tables.queries = apply(query, distances, pool);
  return tables;
}

Matrix head_columns(const Matrix& projection, std::size_t index, std::size_t width) {
  return xt::view(projection, xt::all(), xt::range(index * width, (index + 1) * width));
}

Matrix rotate(const model::RotaryConfig& rotary, std::size_t length, const Matrix& x, Turn turn) {
  const bool is_long = !rotary.long_inverse_frequency.empty() && length > rotary.long_from;
  const std::vector<float>& inverse = is_long ? rotary.long_inverse_frequency : rotary.inverse_frequency;
  const float sign = turn == Turn::forward ? 1.0F : -1.0F;
  const std::size_t pairs = rotary.dims / 2;
  const bool half = rotary.pairing == model::RotaryPairing::half;
  Matrix rotated = x;
  for (std::size_t position = 0; position < x.shape(0); ++position) {
    for (std::size_t j = 0; j < pairs; ++j) {
      const float angle = static_cast<float>(position) * inverse[j];
      const double cosine = std::cos(angle) * rotary.attention_factor;
      const double sine = sign * std::sin(angle) * rotary.attention_factor;
      const std::size_t a = half ? j : 2 * j;
      const std::size_t b = half ? j + pairs : 2 * j + 1;
      rotated(position, a) = x(position, a) * cosine - x(position, b) * sine;
      rotated(position, b) = x(position, b) * cosine + x(position, a) * sine;
    }
  }
  return rotated;
}

ReferenceLayer attend(const model::AttentionConfig& config, const model::AttentionWeights& weights,
                      const AttentionInput& input, Pool& pool, const Edit& edit) {
  LayerInput layer{config,
                   weights,
                   input.sequence,
                   apply(weights.query, input.queries, pool),
                   apply(weights.key, input.keys, pool),
                   {},
                   distance_tables(config, weights, pool)};
  if (weights.value.present()) layer.v = apply(weights.value, input.values, pool);
  if (const double clip = config.clip; clip > 0) {
    for (Matrix* const projection : {&layer.q, &layer.k, &layer.v})
      *projection = xt::clip(*projection, -clip, clip);
  }
  if (config.head_norm_span == model::HeadNormSpan::whole) {
    layer.q = apply(config.head_norm, weights.query_norm, layer.q);
    layer.k = apply(config.head_norm, weights.key_norm, layer.k);
  }

  ReferenceLayer out;
  out.pattern.resize(config.heads);
  out.scores.resize(config.heads);
  if (weights.value.present()) out.z.resize(config.heads);
  Matrix joined = Matrix::from_shape(
      {layer.q.shape(0), out.z.size() * config.d_value});  // the z of all heads, side by side
  pool.run(config.heads, [&](std::size_t head, std::size_t) {
    const Matrix z = attend_head(layer, head, out);
    if (!out.z.empty())
      xt::view(joined, xt::all(), xt::range(head * config.d_value, (head + 1) * config.d_value)) = z;
  });
  if (out.z.empty()) return out;
  out.values = linalg::to_owned(layer.v);
  apply(edit, joined);
  out.output = linalg::to_owned(weights.output.present() ? apply(weights.output, joined, pool) : joined);
  return out;
}

}  // namespace attnctl::reference

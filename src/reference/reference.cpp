#include "reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "forward/sides.hpp"
#include "reference/reference_math.hpp"

namespace attnctl {
namespace {

using reference::add;
using reference::apply;
using reference::widened;

constexpr double masked = -std::numeric_limits<double>::infinity();

/// Head `index` of a projection [n, heads * width].
OwnedMatrix<double> head_of(const OwnedMatrix<double>& all, std::size_t index, std::size_t width) {
  OwnedMatrix<double> head(all.rows(), width);
  for (std::size_t r = 0; r < head.rows(); ++r) {
    for (std::size_t c = 0; c < width; ++c) head(r, c) = all(r, index * width + c);
  }
  return head;
}

/// What is added to the score of a query and a key; -inf where the query may not see the key.
double mask_of(const AttentionConfig& config, const Sequence& sequence, std::size_t head, std::size_t query,
               std::size_t key) {
  if (!sequence.key_visible.empty() && sequence.key_visible[key] == 0) return masked;
  if (sequence.mask) {
    const ScoreMask& mask = *sequence.mask;
    return mask.added[((mask.heads == 1 ? 0 : head) * mask.queries + query) * mask.keys + key];
  }
  return sequence.causal.value_or(config.causal) && key > query ? masked : 0;
}

/// Whether the layer's kind of attention lets a query see a key.
bool kind_shows(const AttentionKind& kind, std::size_t query, std::size_t key) {
  const std::size_t distance = query > key ? query - key : key - query;
  switch (kind.rule) {
    case AttentionKind::Rule::window:
      return distance < kind.size;
    case AttentionKind::Rule::block:
      return query / kind.size == key / kind.size;
    case AttentionKind::Rule::strided:
      return distance < kind.size || distance % kind.size == 0;
    case AttentionKind::Rule::full:
    case AttentionKind::Rule::linear:
      break;
  }
  return true;
}

/// elu(x) + 1.
double feature(double x) {
  return x > 0 ? x + 1 : std::exp(x);
}

/// The score of one query and key, no mask applied: scale q k, or of linear attention ln(phi(q) phi(k)), of
/// which softmax is what its formula says.
double score_of(const AttentionConfig& config, std::span<const double> q, std::span<const double> k) {
  double dot = 0;
  if (config.kind.rule == AttentionKind::Rule::linear) {
    for (std::size_t c = 0; c < q.size(); ++c) dot += feature(q[c]) * feature(k[c]);
    return std::log(dot);
  }
  for (std::size_t c = 0; c < q.size(); ++c) dot += q[c] * k[c];
  const double score = config.scale * dot;
  return config.soft_cap > 0 ? config.soft_cap * std::tanh(score / config.soft_cap) : score;
}

/// The gains of one head, where each has its own.
NormWeights norm_of_head(const AttentionConfig& config, const NormWeights& norm, std::size_t head) {
  if (config.head_norm_span == HeadNormSpan::shared) return norm;
  NormWeights part;
  if (!norm.gain.empty()) part.gain = norm.gain.subspan(head * config.d_head, config.d_head);
  if (!norm.bias.empty()) part.bias = norm.bias.subspan(head * config.d_head, config.d_head);
  return part;
}

/// Projections of all heads of a layer, side by side.
struct Projected {
  OwnedMatrix<double> q, k, v;  // [n, query_slices k], [m, kv_heads k], [m, kv_heads v]
};

struct LayerPass {
  const AttentionConfig& config;
  const AttentionWeights& weights;
  const Sequence& sequence;
  const Projected& projected;
  const reference::Distances& distances;
};

/// With a sink one more score takes part, of which nothing is kept.
void softmax_of(const LayerPass& pass, std::size_t head, std::span<const double> scores,
                std::span<double> pattern) {
  if (!pass.config.sinks) return reference::softmax(scores, pattern);
  double sum = 0;
  const double sink = pass.weights.sinks[head];
  double largest = sink;
  for (const double score : scores) largest = std::max(largest, score);
  for (const double score : scores) sum += std::exp(score - largest);
  sum += std::exp(sink - largest);
  for (std::size_t j = 0; j < scores.size(); ++j) pattern[j] = std::exp(scores[j] - largest) / sum;
}

void attend(const LayerPass& pass, std::size_t head, ReferencePass::Layer& out) {
  const AttentionConfig& config = pass.config;
  const std::size_t kv_head = config.kv_head(head);
  const std::size_t query_slice = config.query_slice(head);
  OwnedMatrix<double> q = head_of(pass.projected.q, query_slice, config.d_head);
  OwnedMatrix<double> k = head_of(pass.projected.k, kv_head, config.d_head);
  if (config.head_norm.kind != NormKind::none && config.head_norm_span != HeadNormSpan::whole) {
    q = apply(config.head_norm, norm_of_head(config, pass.weights.query_norm, query_slice), q.view());
    k = apply(config.head_norm, norm_of_head(config, pass.weights.key_norm, kv_head), k.view());
  }
  if (config.rotary) {
    reference::rotate(*config.rotary, q.rows(), q.view());
    reference::rotate(*config.rotary, q.rows(), k.view());
  }
  OwnedMatrix<double> scores(q.rows(), k.rows());
  OwnedMatrix<double> pattern(q.rows(), k.rows());
  const std::vector<double> alibi = reference::alibi(config, pass.sequence, head);
  for (std::size_t i = 0; i < q.rows(); ++i) {
    for (std::size_t j = 0; j < k.rows(); ++j) {
      const double bias = reference::position_bias(config, pass.weights, head, {i, j});
      const double mask = kind_shows(config.kind, i, j) ? mask_of(config, pass.sequence, head, i, j) : masked;
      const reference::HeadPair pair = {{i, j}, head, q.view().row(i), k.view().row(j)};
      const double score = score_of(config, pair.q, pair.k) + bias +
                           reference::disentangled_bias(config, pass.distances, pair);
      scores(i, j) = mask == masked ? masked : score + alibi[j] + mask;
    }
    softmax_of(pass, head, scores.view().row(i), pattern.view().row(i));
  }
  if (pass.projected.v.cols() > 0) {
    OwnedMatrix<double> z(q.rows(), config.d_value);
    for (std::size_t i = 0; i < z.rows(); ++i) {
      for (std::size_t j = 0; j < k.rows(); ++j) {
        if (scores(i, j) == masked) continue;  // what is hidden does not leak, not even a NaN
        for (std::size_t c = 0; c < z.cols(); ++c) {
          z(i, c) += pattern(i, j) * pass.projected.v(j, kv_head * config.d_value + c);
        }
      }
    }
    out.z[head] = std::move(z);
  }
  out.scores[head] = std::move(scores);
  out.pattern[head] = std::move(pattern);
}

/// What keys and values are made of where that is not the stream of the queries.
struct Elsewhere {
  OwnedMatrix<double> keys, values;  // without rows: the stream; the keys
};

/// Patterns, z and output of one layer, from its (perhaps normalised) input; `sequence` is that of the keys.
ReferencePass::Layer run_attention(const LayerConfig& layer, const LayerWeights& weights,
                                   const Sequence& sequence, const Elsewhere& elsewhere,
                                   const OwnedMatrix<double>& x, Pool& pool) {
  const AttentionConfig& config = layer.attention;
  const OwnedMatrix<double>& keys = elsewhere.keys.rows() > 0 ? elsewhere.keys : x;
  const OwnedMatrix<double>& values = elsewhere.values.rows() > 0 ? elsewhere.values : keys;
  Projected projected = {apply(weights.query, x.view(), pool), apply(weights.key, keys.view(), pool), {}};
  if (weights.value.present()) projected.v = apply(weights.value, values.view(), pool);
  if (config.clip > 0) {
    for (OwnedMatrix<double>* const part : {&projected.q, &projected.k, &projected.v}) {
      for (double& value : part->values())
        value = std::clamp(value, -double{config.clip}, double{config.clip});
    }
  }
  if (config.head_norm.kind != NormKind::none && config.head_norm_span == HeadNormSpan::whole) {
    projected.q = apply(config.head_norm, weights.query_norm, projected.q.view());
    projected.k = apply(config.head_norm, weights.key_norm, projected.k.view());
  }

  ReferencePass::Layer out;
  out.pattern.resize(config.heads);
  out.scores.resize(config.heads);
  if (weights.value.present()) out.z.resize(config.heads);
  const reference::Distances distances = reference::project_distances(config, weights, pool);
  const LayerPass pass = {config, weights, sequence, projected, distances};
  pool.run(config.heads, [&](std::size_t head, std::size_t) { attend(pass, head, out); });
  if (out.z.empty()) return out;

  OwnedMatrix<double> all(x.rows(), config.heads * config.d_value);
  for (std::size_t r = 0; r < all.rows(); ++r) {
    for (std::size_t c = 0; c < all.cols(); ++c) all(r, c) = out.z[c / config.d_value](r, c % config.d_value);
  }
  out.output = weights.output.present() ? apply(weights.output, all.view(), pool) : std::move(all);
  return out;
}

/// Whether a layer's branches are fed the normalised stream.
bool feeds_normed(NormPlace place) {
  return place == NormPlace::pre || place == NormPlace::both;
}

/// What a branch gives, as it is added to the stream.
OwnedMatrix<double> as_added(const LayerConfig& config, OwnedMatrix<double> branch, const NormWeights& norm,
                             const NormWeights& output_norm) {
  if (config.place == NormPlace::output) branch = apply(config.norm, norm, branch.view());
  if (config.place == NormPlace::both) branch = apply(config.norm, output_norm, branch.view());
  for (double& value : branch.values()) value *= config.residual_multiplier;
  return branch;
}

/// x after the layer, given its attention output.
void finish_layer(const LayerConfig& config, const LayerWeights& weights, OwnedMatrix<double> output,
                  OwnedMatrix<double>& x, Pool& pool) {
  const OwnedMatrix<double> before = x;
  add(as_added(config, std::move(output), weights.attention_norm, weights.attention_output_norm).view(), x);
  if (config.place == NormPlace::post) x = apply(config.norm, weights.attention_norm, x.view());
  if (config.mlp.width == 0) return;
  if (config.place == NormPlace::stream) x = apply(config.norm, weights.mlp_norm, x.view());
  const OwnedMatrix<double>& stream = config.parallel ? before : x;
  OwnedMatrix<double> made = reference::run_mlp(
      config, weights,
      feeds_normed(config.place) ? apply(config.norm, weights.mlp_norm, stream.view()) : stream, pool);
  add(as_added(config, std::move(made), weights.mlp_norm, weights.mlp_output_norm).view(), x);
  if (config.place == NormPlace::post) x = apply(config.norm, weights.mlp_norm, x.view());
}

OwnedMatrix<double> run_head(const Model& model, OwnedMatrix<double> x, Pool& pool) {
  const HeadConfig& config = model.config().head;
  const Lease<HeadWeights> lease = model.head();
  const HeadWeights& weights = *lease;
  if (weights.projection.present()) x = apply(weights.projection, x.view(), pool);
  if (config.transform) {
    x = apply(weights.transform, x.view(), pool);
    for (double& value : x.values()) value = reference::activate(config.activation, value);
    x = apply(config.norm, weights.transform_norm, x.view());
  }
  OwnedMatrix<double> logits = apply(weights.decoder, x.view(), pool);
  for (double& value : logits.values()) {
    value *= config.multiplier;
    if (config.soft_cap > 0) value = config.soft_cap * std::tanh(value / config.soft_cap);
  }
  return logits;
}

}  // namespace

ReferencePass run_reference(const Model& model, const Sequence& sequence, std::size_t last_layer, bool logits,
                            Pool& pool) {
  const ModelConfig& config = model.config();
  const bool to_the_end = logits && config.head.present;
  const std::size_t count = to_the_end ? config.layers.size() : last_layer + 1;
  ReferencePass pass;
  OwnedMatrix<double> x = reference::embed(reference::Embedding(model), sequence, pool);
  const OwnedMatrix<double> embeddings = x;
  const Elsewhere given = {widened(sequence.key_embeddings), widened(sequence.value_embeddings)};
  Elsewhere memory;  // the encoder's output, once the decoder has begun
  for (std::size_t i = 0; i < count; ++i) {
    const LayerConfig& layer = config.layers.at(i);
    const Lease<LayerWeights> lease = model.layer(i);
    const LayerWeights& weights = *lease;
    if (needs_target(layer.component) && memory.keys.rows() == 0) {
      memory.keys = apply(config.decoder->encoder_norm, model.encoder_norm(), x.view());
      x = reference::embed({config.decoder->embedding, model.target_embedding()}, *sequence.target, pool);
    }
    if (layer.place == NormPlace::stream) x = apply(layer.norm, weights.attention_norm, x.view());
    ReferencePass::Layer result = run_attention(
        layer, weights, layer.component == Component::decoder ? *sequence.target : sequence,
        layer.component == Component::cross ? memory : given,
        feeds_normed(layer.place) ? apply(layer.attention_norm(), weights.attention_norm, x.view()) : x,
        pool);
    if (i + 1 < count || to_the_end) {
      if (result.z.empty()) {
        fail(Status::bad_input,
             "{}: layer {} has no values (W_v), so layer {} has no input; select layers up to {}",
             escaped(model.name()), i, i + 1, i);
      }
      finish_layer(layer, weights, result.output, x, pool);
      reference::add_convolution(layer, weights, embeddings, x);
    }
    if (i <= last_layer) pass.layers.push_back(std::move(result));
  }
  if (to_the_end) {
    if (config.final_norm.kind != NormKind::none) x = apply(config.final_norm, model.final_norm(), x.view());
    pass.logits = run_head(model, std::move(x), pool);
  }
  return pass;
}

}  // namespace attnctl

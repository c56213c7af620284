#include <cstdint>

#include "reference/gradient.hpp"

namespace attnctl::reference {
namespace {

using linalg::dot;

/// The queries, keys and values of all heads or of one head, or their derivatives.
struct QueryKeyValue {
  Matrix q, k, v;
};

/// The values of a layer that the gradients of all its heads need.
struct AttentionTrace {
  const model::AttentionConfig& config;
  const model::AttentionWeights& weights;
  QueryKeyValue projected;  // the results of the projections
  QueryKeyValue clipped;    // after clamping
  QueryKeyValue normed;     // after the norm of all heads together, if the layer has one
  DistanceTables distances;
};

AttentionTrace trace_of(const model::AttentionConfig& config, const model::AttentionWeights& weights,
                        const AttentionInput& input, Pool& pool) {
  AttentionTrace trace{config, weights, {}, {}, {}, distance_tables(config, weights, pool)};
  trace.projected = {apply(weights.query, input.queries, pool), apply(weights.key, input.keys, pool),
                     apply(weights.value, input.values, pool)};
  trace.clipped = trace.projected;
  if (const double clip = config.clip; clip > 0) {
    for (Matrix QueryKeyValue::*const member : {&QueryKeyValue::q, &QueryKeyValue::k, &QueryKeyValue::v})
      trace.clipped.*member = xt::clip(trace.projected.*member, -clip, clip);
  }
  trace.normed = trace.clipped;
  if (config.head_norm_span == model::HeadNormSpan::whole) {
    trace.normed.q = apply(config.head_norm, weights.query_norm, trace.clipped.q);
    trace.normed.k = apply(config.head_norm, weights.key_norm, trace.clipped.k);
  }
  return trace;
}

/// Adds the derivatives of q and k for the scores of plain attention, scale q k^T with the soft cap.
void add_product_gradient(const model::AttentionConfig& config, const Matrix& q, const Matrix& k,
                          const Matrix& d_scores, QueryKeyValue& d) {
  Matrix d_product = config.scale * d_scores;
  if (const double cap = config.soft_cap; cap > 0) {
    const Matrix tanh = xt::tanh(config.scale / cap * dot(q, xt::transpose(k)));
    d_product *= 1 - tanh * tanh;
  }
  d.q += dot(d_product, k);
  d.k += dot(xt::transpose(d_product), q);
}

/// Adds the derivatives of q and k for the scores ln(phi(q) phi(k)^T) of linear attention.
void add_linear_gradient(const Matrix& q, const Matrix& k, const Matrix& d_scores, QueryKeyValue& d) {
  const auto slope = [](const Matrix& x) { return Matrix(xt::where(x > 0, 1.0, xt::exp(x))); };
  const Matrix query_features = linear_features(q);
  const Matrix key_features = linear_features(k);
  const Matrix product = dot(query_features, xt::transpose(key_features));
  const Matrix d_product = xt::where(xt::equal(d_scores, 0.0), 0.0, d_scores / product);
  d.q += dot(d_product, key_features) * slope(q);
  d.k += dot(xt::transpose(d_product), query_features) * slope(k);
}

/// Adds the derivatives of q and k for the terms of disentangled attention.
void add_distance_gradient(const AttentionTrace& trace, std::size_t head, const Matrix& d_scores,
                           QueryKeyValue& d) {
  const model::AttentionConfig& config = trace.config;
  // The term of query i and key j is scale times the product of row `index` of x with a row of the table.
  const auto add = [&](const Matrix& distances, bool of_query, Matrix& d_x) {
    if (distances.size() == 0) return;
    Matrix d_product = xt::zeros<double>({d_x.shape(0), distances.shape(0)});
    for (std::size_t i = 0; i < d_scores.shape(0); ++i) {
      for (std::size_t j = 0; j < d_scores.shape(1); ++j) {
        const std::int64_t distance = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(j);
        const std::size_t index = of_query ? i : j;
        d_product(index, distance_row(*config.disentangled, distance)) += config.scale * d_scores(i, j);
      }
    }
    d_x += dot(d_product, head_columns(distances, head, config.d_head));
  };
  add(trace.distances.keys, true, d.q);
  add(trace.distances.queries, false, d.k);
}

/// Returns d_q, d_k and d_v of one head, before its norm and rotation, given d_z. ALiBi, T5 buckets and masks
/// are constants, and a sink only changes the pattern.
QueryKeyValue head_gradient(const AttentionTrace& trace, std::size_t head, const Matrix& pattern,
                            const Matrix& d_z) {
  const model::AttentionConfig& config = trace.config;
  const std::size_t kv_head = config.kv_head(head);
  const Matrix plain_q = head_columns(trace.normed.q, config.query_slice(head), config.d_head);
  const Matrix plain_k = head_columns(trace.normed.k, kv_head, config.d_head);
  const Matrix v = head_columns(trace.normed.v, kv_head, config.d_value);
  const std::size_t length = plain_q.shape(0);
  const bool normed = config.head_norm_span != model::HeadNormSpan::whole;
  const model::NormConfig norm = normed ? config.head_norm : model::NormConfig{};
  const model::NormWeights query_norm =
      norm_of_head(config, trace.weights.query_norm, config.query_slice(head));
  const model::NormWeights key_norm = norm_of_head(config, trace.weights.key_norm, kv_head);
  const auto turned = [&](const Matrix& x, Turn turn) {
    return config.rotary ? rotate(*config.rotary, length, x, turn) : x;
  };
  const Matrix q = turned(apply(norm, query_norm, plain_q), Turn::forward);
  const Matrix k = turned(apply(norm, key_norm, plain_k), Turn::forward);

  const Matrix d_pattern = dot(d_z, xt::transpose(v));
  const Matrix d_scores = pattern * (d_pattern - linalg::row_sum(pattern * d_pattern));
  QueryKeyValue d = {xt::zeros_like(q), xt::zeros_like(k), dot(xt::transpose(pattern), d_z)};
  if (config.kind.rule == model::AttentionKind::Rule::linear) {
    add_linear_gradient(q, k, d_scores, d);
  } else {
    add_product_gradient(config, q, k, d_scores, d);
  }
  add_distance_gradient(trace, head, d_scores, d);
  d.q = backward(norm, query_norm, plain_q, turned(d.q, Turn::back));
  d.k = backward(norm, key_norm, plain_k, turned(d.k, Turn::back));
  return d;
}

}  // namespace

AttentionGradient attention_gradient(const model::AttentionConfig& config,
                                     const model::AttentionWeights& weights, const AttentionInput& input,
                                     const ReferenceLayer& pass, const Matrix& d_output, Pool& pool) {
  const AttentionTrace trace = trace_of(config, weights, input, pool);
  const Matrix d_joined = weights.output.present() ? backward(weights.output, d_output, pool) : d_output;
  AttentionGradient result;
  result.d_z.resize(config.heads);
  std::vector<QueryKeyValue> heads(config.heads);
  pool.run(config.heads, [&](std::size_t h, std::size_t) {
    result.d_z[h] = head_columns(d_joined, h, config.d_value);
    heads[h] = head_gradient(trace, h, linalg::to_matrix(pass.pattern[h].view()), result.d_z[h]);
  });
  QueryKeyValue d = {xt::zeros_like(trace.normed.q), xt::zeros_like(trace.normed.k),
                     xt::zeros_like(trace.normed.v)};
  const auto add = [](Matrix& sum, std::size_t slice, const Matrix& part) {
    const std::size_t width = part.shape(1);
    xt::view(sum, xt::all(), xt::range(slice * width, (slice + 1) * width)) += part;
  };
  for (std::size_t h = 0; h < config.heads; ++h) {
    add(d.q, config.query_slice(h), heads[h].q);
    add(d.k, config.kv_head(h), heads[h].k);
    add(d.v, config.kv_head(h), heads[h].v);
  }
  if (config.head_norm_span == model::HeadNormSpan::whole) {
    d.q = backward(config.head_norm, weights.query_norm, trace.clipped.q, d.q);
    d.k = backward(config.head_norm, weights.key_norm, trace.clipped.k, d.k);
  }
  if (const double clip = config.clip; clip > 0) {
    for (Matrix QueryKeyValue::*const member : {&QueryKeyValue::q, &QueryKeyValue::k, &QueryKeyValue::v})
      d.*member = xt::where(xt::abs(trace.projected.*member) <= clip, d.*member, 0.0);
  }
  result.d_queries = backward(weights.query, d.q, pool);
  result.d_keys = backward(weights.key, d.k, pool);
  result.d_values = backward(weights.value, d.v, pool);
  return result;
}

}  // namespace attnctl::reference

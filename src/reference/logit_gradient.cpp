#include <algorithm>
#include <numbers>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "reference/layers.hpp"

namespace attnctl::reference {
namespace {

using linalg::dot;

/// Returns a mechanism of the model that the gradient does not support; an empty text if it supports all.
std::string_view unsupported_mechanism(const model::ModelConfig& config) {
  if (!config.head.present) return "models without an output head";
  if (config.head.projection.weight || config.head.multiplier != 1 || config.head.soft_cap != 0)
    return "projected, scaled or capped logits";
  if (config.embedding.dropout || config.embedding.multiplier != 1)
    return "scaled embeddings or token dropout";
  if (config.embedding.projected_first && config.embedding.projection.weight)
    return "embeddings that are projected before their norm";
  if (config.embedding.positions_last) return "positions that are added after a projection";
  if (config.decoder) return "encoder-decoder models";
  for (const model::LayerConfig& layer : config.layers) {
    const model::AttentionConfig& attention = layer.attention;
    if (layer.place == model::NormPlace::output || layer.place == model::NormPlace::both ||
        layer.place == model::NormPlace::stream)
      return "norms that are neither pre-norm nor post-norm";
    if (layer.parallel || layer.residual_multiplier != 1) return "parallel or scaled attention and MLP";
    if (layer.experts.count > 0) return "experts";
    if (attention.disentangled) return "disentangled attention";
    if (layer.convolution) return "a convolution";
    if (attention.clip != 0 || attention.soft_cap != 0 || attention.sinks)
      return "clamped queries, keys and values, capped scores, or attention sinks";
    if (attention.head_norm_span != model::HeadNormSpan::shared)
      return "norms of queries and keys with gains per head";
  }
  return {};
}

void check_gradient(const model::Model& model, const input::Sequence& sequence) {
  if (const std::string_view what = unsupported_mechanism(model.config()); !what.empty())
    fail(Status::bad_input, "{}: gradients do not support {}", escaped(model.name()), what);
  if (sequence.key_embeddings.rows() > 0)
    fail(Status::bad_input, "input {}: gradients do not support separate keys", escaped(sequence.id));
}

// In this file, d_x is the derivative of the logit with respect to x.

/// Returns d_x [n, in] for y = x W + b, given d_y.
Matrix backward(const model::Linear& linear, const Matrix& d_y) {
  return dot(d_y, xt::transpose(weight_of(linear)));
}

/// Returns d_x for y = N(x), given d_y.
Matrix backward(const model::NormConfig& config, const model::NormWeights& weights, const Matrix& x,
                const Matrix& d_y) {
  if (config.kind == model::NormKind::none) return d_y;
  const auto [y, deviation] = normalise(config, x);
  Matrix d = d_y * gain_of(weights, x.shape(1));
  const Matrix along_y = linalg::row_mean(d * y);
  if (config.kind == model::NormKind::layer) d -= linalg::row_mean(Matrix(d));
  return (d - along_y * y) / deviation;
}

/// Returns the derivative of the activation at each element of x. The derivative of relu at 0 is 0.
Matrix derivative(model::Activation activation, const Matrix& x) {
  switch (activation) {
    case model::Activation::gelu_erf: {
      const double density = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
      return 0.5 * (1 + xt::erf(x / std::numbers::sqrt2)) + x * xt::exp(-x * x / 2) * density;
    }
    case model::Activation::gelu_tanh: {
      const double root = std::sqrt(2 / std::numbers::pi);
      const Matrix tanh = xt::tanh(root * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * root * (1 + 3 * 0.044715 * x * x);
    }
    case model::Activation::silu: {
      const Matrix sigmoid = 1 / (1 + xt::exp(-x));
      return sigmoid * (1 + x * (1 - sigmoid));
    }
    case model::Activation::relu:
      return xt::where(x > 0, 1.0, 0.0);
    case model::Activation::relu_squared:
      return xt::where(x < 0, 0.0, 2 * x);
    case model::Activation::tanh:
      return 1 - xt::square(xt::tanh(x));
  }
  return xt::ones<double>(x.shape());
}

/// The values of the residual stream in a layer that the gradient needs.
struct LayerTrace {
  Matrix x;          // input of the layer
  Matrix attended;   // x + attention output
  Matrix mlp_input;  // `attended`, normalised if the norms are post-norm
  Matrix mlp_sum;    // mlp_input + MLP output; empty without an MLP
};

/// A forward pass, with all values that its gradient needs.
struct Trace {
  const model::Model& model;
  const input::Sequence& sequence;
  Pool& pool;
  ReferencePass pass;
  std::vector<LayerTrace> layers;
  Matrix last;  // input of the final norm
};

bool is_pre(const model::LayerConfig& layer) {
  return layer.place == model::NormPlace::pre;
}
bool is_post(const model::LayerConfig& layer) {
  return layer.place == model::NormPlace::post;
}

Matrix mlp_branch_input(const model::LayerConfig& layer, const model::LayerWeights& weights,
                        const Matrix& x) {
  return is_pre(layer) ? apply(layer.norm, weights.mlp_norm, x) : x;
}

/// Computes the residual stream of each layer again, from the attention outputs that the pass stored.
void trace_layers(Trace& trace) {
  const model::ModelConfig& config = trace.model.config();
  Matrix x = embed({config.embedding, trace.model.embedding()}, trace.sequence, trace.pool);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const model::LayerConfig& layer = config.layers[i];
    const model::Lease<model::LayerWeights> weights = trace.model.layer(i);
    LayerTrace& at = trace.layers.emplace_back();
    at.x = x;
    at.attended = x + linalg::to_matrix(trace.pass.layers[i].output.view());
    at.mlp_input = is_post(layer) ? apply(layer.norm, weights->attention_norm, at.attended) : at.attended;
    x = at.mlp_input;
    if (layer.mlp.width == 0) continue;
    at.mlp_sum = x + run_mlp(layer, *weights, mlp_branch_input(layer, *weights, x), trace.pool);
    x = is_post(layer) ? apply(layer.norm, weights->mlp_norm, at.mlp_sum) : at.mlp_sum;
  }
  trace.last = std::move(x);
}

/// Returns d_x of an MLP, where x is its input, given d_out.
Matrix mlp_gradient(const model::MlpConfig& config, const model::MlpWeights& weights, const Matrix& x,
                    const Matrix& d_out, Pool& pool) {
  const Matrix up = apply(weights.up, x, pool);
  const Matrix d_inner = backward(weights.down, d_out);
  if (!config.gated) return backward(weights.up, d_inner * derivative(config.activation, up));
  const Matrix gate = apply(weights.gate, x, pool);
  return backward(weights.up, d_inner * activate(config.activation, gate)) +
         backward(weights.gate, d_inner * up * derivative(config.activation, gate));
}

/// The queries, keys and values of all heads or of one head, or their derivatives.
struct QueryKeyValue {
  Matrix q, k, v;
};

/// Returns d_q, d_k and d_v of one head, given d_z.
QueryKeyValue head_gradient(const model::AttentionConfig& config, const model::AttentionWeights& weights,
                            const QueryKeyValue& all, std::size_t head, const Matrix& pattern,
                            const Matrix& d_z) {
  const std::size_t kv_head = config.kv_head(head);
  const Matrix plain_q = head_columns(all.q, config.query_slice(head), config.d_head);
  const Matrix plain_k = head_columns(all.k, kv_head, config.d_head);
  const Matrix v = head_columns(all.v, kv_head, config.d_value);
  const std::size_t length = plain_q.shape(0);
  const auto rotate = [&](const Matrix& x, Turn turn) {
    return config.rotary ? reference::rotate(*config.rotary, length, x, turn) : x;
  };
  const Matrix q = rotate(apply(config.head_norm, weights.query_norm, plain_q), Turn::forward);
  const Matrix k = rotate(apply(config.head_norm, weights.key_norm, plain_k), Turn::forward);

  const Matrix d_pattern = dot(d_z, xt::transpose(v));
  const Matrix d_scores = pattern * (d_pattern - linalg::row_sum(pattern * d_pattern));
  const Matrix d_q = rotate(config.scale * dot(d_scores, k), Turn::back);
  const Matrix d_k = rotate(config.scale * dot(xt::transpose(d_scores), q), Turn::back);
  return {backward(config.head_norm, weights.query_norm, plain_q, d_q),
          backward(config.head_norm, weights.key_norm, plain_k, d_k), dot(xt::transpose(pattern), d_z)};
}

/// Returns d_x of a layer's attention with input x, given d_output. Stores z and d_z of each head in `heads`.
Matrix attention_gradient(const Trace& trace, std::size_t index, const Matrix& x, const Matrix& d_output,
                          std::vector<HeadLogitGradient>& heads) {
  const model::AttentionConfig& config = trace.model.config().layers[index].attention;
  const model::Lease<model::LayerWeights> weights = trace.model.layer(index);
  const QueryKeyValue all = {apply(weights->query, x, trace.pool), apply(weights->key, x, trace.pool),
                             apply(weights->value, x, trace.pool)};
  const Matrix d_joined = weights->output.present() ? backward(weights->output, d_output) : d_output;
  const ReferenceLayer& pass = trace.pass.layers[index];
  heads.resize(config.heads);
  std::vector<QueryKeyValue> gradients(config.heads);
  trace.pool.run(config.heads, [&](std::size_t h, std::size_t) {
    const Matrix d_z = head_columns(d_joined, h, config.d_value);
    heads[h] = {pass.z[h], linalg::to_owned(d_z)};
    gradients[h] = head_gradient(config, *weights, all, h, linalg::to_matrix(pass.pattern[h].view()), d_z);
  });
  QueryKeyValue d = {xt::zeros_like(all.q), xt::zeros_like(all.k), xt::zeros_like(all.v)};
  const auto add = [](Matrix& sum, std::size_t slice, const Matrix& part) {
    const std::size_t width = part.shape(1);
    xt::view(sum, xt::all(), xt::range(slice * width, (slice + 1) * width)) += part;
  };
  for (std::size_t h = 0; h < config.heads; ++h) {
    add(d.q, config.query_slice(h), gradients[h].q);
    add(d.k, config.kv_head(h), gradients[h].k);
    add(d.v, config.kv_head(h), gradients[h].v);
  }
  return backward(weights->query, d.q) + backward(weights->key, d.k) + backward(weights->value, d.v);
}

/// Returns d_x of a layer's input, given d_x of its output. Stores z and d_z of each head in `heads`.
Matrix layer_gradient(const Trace& trace, std::size_t index, Matrix d_x,
                      std::vector<HeadLogitGradient>& heads) {
  const model::LayerConfig& layer = trace.model.config().layers[index];
  const model::Lease<model::LayerWeights> weights = trace.model.layer(index);
  const LayerTrace& at = trace.layers[index];
  if (layer.mlp.width > 0) {
    if (is_post(layer)) d_x = backward(layer.norm, weights->mlp_norm, at.mlp_sum, d_x);
    const Matrix d_mlp = mlp_gradient(layer.mlp, weights->mlp,
                                      mlp_branch_input(layer, *weights, at.mlp_input), d_x, trace.pool);
    d_x += is_pre(layer) ? backward(layer.norm, weights->mlp_norm, at.mlp_input, d_mlp) : d_mlp;
  }
  if (is_post(layer)) d_x = backward(layer.norm, weights->attention_norm, at.attended, d_x);
  const model::NormConfig norm = is_pre(layer) ? layer.attention_norm() : model::NormConfig{};
  const Matrix d_attention =
      attention_gradient(trace, index, apply(norm, weights->attention_norm, at.x), d_x, heads);
  return d_x + backward(norm, weights->attention_norm, at.x, d_attention);
}

/// Stores the token and its logit in `result`. Returns d_x [n, d], where x is the output of the last layer.
Matrix output_head_gradient(const Trace& trace, std::size_t position, std::optional<std::size_t> token,
                            LogitGradient& result) {
  const model::ModelConfig& config = trace.model.config();
  const model::Lease<model::HeadWeights> weights = trace.model.head();
  const auto at_position = [&] { return xt::range(position, position + 1); };
  const Matrix row = xt::view(trace.last, at_position(), xt::all());
  Matrix x = apply(config.final_norm, trace.model.final_norm(), row);
  Matrix transformed, activated;
  if (config.head.transform) {
    transformed = apply(weights->transform, x, trace.pool);
    activated = activate(config.head.activation, transformed);
    x = apply(config.head.norm, weights->transform_norm, activated);
  }
  const Matrix logits = apply(weights->decoder, x, trace.pool);
  const auto largest = std::max_element(logits.begin(), logits.end());
  result.token = token.value_or(static_cast<std::size_t>(largest - logits.begin()));
  result.logit = logits(0, result.token);

  Matrix d = backward(weights->decoder.outputs(result.token, 1), xt::ones<double>({1, 1}));
  if (config.head.transform) {
    d = backward(config.head.norm, weights->transform_norm, activated, d);
    d = backward(weights->transform, d * derivative(config.head.activation, transformed));
  }
  Matrix d_last = xt::zeros_like(trace.last);
  xt::view(d_last, at_position(), xt::all()) = backward(config.final_norm, trace.model.final_norm(), row, d);
  return d_last;
}

/// Stores the token embeddings and their derivatives in `result`, given d_x of the first layer's input.
void embedding_gradient(const Trace& trace, Matrix d_x, LogitGradient& result) {
  const Embedding embedding{trace.model.config().embedding, trace.model.embedding()};
  const model::EmbeddingWeights& weights = *embedding.weights;
  clear_hidden(embedding.config, trace.sequence, d_x);
  if (weights.projection.present()) d_x = backward(weights.projection, d_x);
  const Matrix sum = embedding_sum(embedding, trace.sequence);
  result.d_embedding = linalg::to_owned(backward(embedding.config.norm, weights.norm, sum, d_x));
  result.embedding = linalg::to_owned(token_embeddings(embedding, trace.sequence));
}

}  // namespace

LogitGradient logit_gradient(const model::Model& model, const input::Sequence& sequence, std::size_t position,
                             std::optional<std::size_t> token, Pool& pool) {
  check_gradient(model, sequence);
  const std::size_t layers = model.config().layers.size();
  Trace trace{model, sequence, pool, run_reference(model, sequence, layers - 1, false, pool), {}, {}};
  if (trace.pass.layers.back().z.empty())
    fail(Status::bad_input, "{}: layer {} has no values (W_v), which gradients need", escaped(model.name()),
         layers - 1);
  trace_layers(trace);
  LogitGradient result;
  Matrix d_x = output_head_gradient(trace, position, token, result);
  result.layers.resize(layers);
  for (std::size_t i = layers; i-- > 0;) d_x = layer_gradient(trace, i, d_x, result.layers[i]);
  embedding_gradient(trace, d_x, result);
  return result;
}

}  // namespace attnctl::reference

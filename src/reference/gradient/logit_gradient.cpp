#include "reference/gradient/logit_gradient.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "linalg/gemm.hpp"
#include "reference/gradient/backward_math.hpp"
#include "reference/gradient/gradient_check.hpp"
#include "reference/reference.hpp"
#include "reference/reference_math.hpp"

namespace attnctl {
namespace {

using backward::slope;
using backward::through;
using reference::activate;
using reference::add;
using reference::apply;

using Matrix = OwnedMatrix<double>;

/// The residual stream at the places of a layer where something branches off or is normalised.
struct LayerTrace {
  Matrix x;         // that enters the layer
  Matrix attended;  // x + attention output
  Matrix mixed;     // what enters the MLP's side: `attended`, under post-norm normalised
  Matrix fed;       // mixed + MLP output; empty without an MLP
};

/// A pass of which all is kept that its gradient needs.
struct Trace {
  const Model& model;
  const Sequence& sequence;
  Pool& pool;
  ReferencePass pass;
  std::vector<LayerTrace> layers;
  Matrix last;  // before the final norm
};

bool is_pre(const LayerConfig& layer) {
  return layer.place == NormPlace::pre;
}
bool is_post(const LayerConfig& layer) {
  return layer.place == NormPlace::post;
}

/// Attention or MLP: under pre-norm what it is fed is the normalised stream, elsewhere the stream.
struct Branch {
  bool pre;
  NormConfig config;
  const NormWeights& norm;
};
Branch attention_branch(const LayerConfig& layer, const LayerWeights& weights) {
  return {is_pre(layer), layer.attention_norm(), weights.attention_norm};
}
Branch mlp_branch(const LayerConfig& layer, const LayerWeights& weights) {
  return {is_pre(layer), layer.norm, weights.mlp_norm};
}

Matrix branch_input(const Branch& branch, const Matrix& x) {
  return branch.pre ? apply(branch.config, branch.norm, x.view()) : x;
}

/// The MLP's activations before `down`, and what they are made of.
struct MlpTrace {
  Matrix up, gate, inner;
};
MlpTrace trace_mlp(const MlpConfig& config, const MlpWeights& weights, const Matrix& x, Pool& pool) {
  MlpTrace trace;
  trace.up = apply(weights.up, x.view(), pool);
  if (config.gated) trace.gate = apply(weights.gate, x.view(), pool);
  trace.inner = trace.up;
  for (std::size_t i = 0; i < trace.inner.values().size(); ++i) {
    double& value = trace.inner.values()[i];
    value = config.gated ? value * activate(config.activation, trace.gate.values()[i])
                         : activate(config.activation, value);
  }
  return trace;
}

/// Runs the residual stream again beside the reference's attention outputs.
void trace_layers(Trace& trace) {
  Matrix x = reference::embed(reference::Embedding(trace.model), trace.sequence, trace.pool);
  const ModelConfig& config = trace.model.config();
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    const Lease<LayerWeights> lease = trace.model.layer(i);
    const LayerWeights& weights = *lease;
    LayerTrace& at = trace.layers.emplace_back();
    at.x = x;
    add(trace.pass.layers[i].output.view(), x);
    at.attended = x;
    if (is_post(layer)) x = apply(layer.norm, weights.attention_norm, x.view());
    at.mixed = x;
    if (layer.mlp.width == 0) continue;
    const MlpTrace mlp =
        trace_mlp(layer.mlp, weights.mlp, branch_input(mlp_branch(layer, weights), x), trace.pool);
    add(apply(weights.mlp.down, mlp.inner.view(), trace.pool).view(), x);
    at.fed = x;
    if (is_post(layer)) x = apply(layer.norm, weights.mlp_norm, x.view());
  }
  trace.last = std::move(x);
}

Matrix mlp_gradient(const MlpConfig& config, const MlpWeights& weights, const Matrix& x, const Matrix& d_out,
                    Pool& pool) {
  const MlpTrace trace = trace_mlp(config, weights, x, pool);
  Matrix d_up = through(weights.down, d_out.view());
  Matrix d_gate = d_up;
  for (std::size_t i = 0; i < d_up.values().size(); ++i) {
    if (config.gated) {
      const double gate = trace.gate.values()[i];
      d_gate.values()[i] *= trace.up.values()[i] * slope(config.activation, gate);
      d_up.values()[i] *= activate(config.activation, gate);
    } else {
      d_up.values()[i] *= slope(config.activation, trace.up.values()[i]);
    }
  }
  Matrix d_x = through(weights.up, d_up.view());
  if (config.gated) add(through(weights.gate, d_gate.view()).view(), d_x);
  return d_x;
}

/// Columns [first, first + count).
Matrix columns(const Matrix& all, std::size_t first, std::size_t count) {
  Matrix part(all.rows(), count);
  for (std::size_t r = 0; r < all.rows(); ++r)
    std::copy_n(all.view().row(r).begin() + static_cast<std::ptrdiff_t>(first), count,
                part.view().row(r).begin());
  return part;
}

/// The projections of a layer, heads side by side, or their gradients.
struct Projections {
  Matrix q, k, v;
};

/// A head's pattern and what it is given back.
struct HeadPoint {
  const Matrix& pattern;
  const Matrix& d_z;
};

/// One head: dL/dz is given; its parts of dL/dq, dL/dk and dL/dv.
Projections head_gradient(const AttentionConfig& config, const AttentionWeights& weights,
                          const Projections& all, std::size_t head, const HeadPoint& at) {
  const auto& [pattern, d_z] = at;
  const std::size_t kv_head = config.kv_head(head);
  Matrix q = columns(all.q, config.query_slice(head) * config.d_head, config.d_head);
  Matrix k = columns(all.k, kv_head * config.d_head, config.d_head);
  const Matrix v = columns(all.v, kv_head * config.d_value, config.d_value);
  const Matrix plain_q = q;
  const Matrix plain_k = k;
  q = apply(config.head_norm, weights.query_norm, q.view());
  k = apply(config.head_norm, weights.key_norm, k.view());
  if (config.rotary) {
    reference::rotate(*config.rotary, q.rows(), q.view());
    reference::rotate(*config.rotary, k.rows(), k.view());
  }
  Matrix d_scores(pattern.rows(), pattern.cols());
  gemm_nt(d_z.view(), v.view(), d_scores.view());
  backward::through_softmax(pattern.view(), d_scores.view());
  const Matrix& d_s = d_scores;
  Projections d{Matrix(q.rows(), q.cols()), Matrix(k.rows(), k.cols()), Matrix(v.rows(), v.cols())};
  gemm_nn(d_s.view(), std::as_const(k).view(), d.q.view(), config.scale);
  gemm_tn(d_s.view(), std::as_const(q).view(), d.k.view(), config.scale);
  gemm_tn(pattern.view(), d_z.view(), d.v.view());
  if (config.rotary) {
    backward::through_rotation(*config.rotary, q.rows(), d.q.view());
    backward::through_rotation(*config.rotary, k.rows(), d.k.view());
  }
  d.q = through(config.head_norm, weights.query_norm, plain_q.view(), d.q.view());
  d.k = through(config.head_norm, weights.key_norm, plain_k.view(), d.k.view());
  return d;
}

void add_columns(const Matrix& part, std::size_t first, Matrix& all) {
  for (std::size_t r = 0; r < part.rows(); ++r) {
    for (std::size_t c = 0; c < part.cols(); ++c) all(r, first + c) += part(r, c);
  }
}

/// dL/dx of a layer's attention at x, from dL/doutput; keeps what each head is given.
Matrix attention_gradient(const Trace& trace, std::size_t index, const Matrix& x, const Matrix& d_output,
                          std::vector<LogitGradient::Head>& heads) {
  const AttentionConfig& config = trace.model.config().layers[index].attention;
  const Lease<LayerWeights> lease = trace.model.layer(index);
  const AttentionWeights& weights = *lease;
  const Projections all = {apply(weights.query, x.view(), trace.pool),
                           apply(weights.key, x.view(), trace.pool),
                           apply(weights.value, x.view(), trace.pool)};
  const Matrix d_joined = weights.output.present() ? through(weights.output, d_output.view()) : d_output;
  const ReferencePass::Layer& pass = trace.pass.layers[index];
  heads.resize(config.heads);
  std::vector<Projections> parts(config.heads);
  trace.pool.run(config.heads, [&](std::size_t h, std::size_t) {
    heads[h] = {pass.z[h], columns(d_joined, h * config.d_value, config.d_value)};
    parts[h] = head_gradient(config, weights, all, h, {pass.pattern[h], heads[h].d_z});
  });
  Projections d{Matrix(all.q.rows(), all.q.cols()), Matrix(all.k.rows(), all.k.cols()),
                Matrix(all.v.rows(), all.v.cols())};
  for (std::size_t h = 0; h < config.heads; ++h) {
    const std::size_t kv_head = config.kv_head(h);
    add_columns(parts[h].q, config.query_slice(h) * config.d_head, d.q);
    add_columns(parts[h].k, kv_head * config.d_head, d.k);
    add_columns(parts[h].v, kv_head * config.d_value, d.v);
  }
  Matrix d_x = through(weights.query, d.q.view());
  add(through(weights.key, d.k.view()).view(), d_x);
  add(through(weights.value, d.v.view()).view(), d_x);
  return d_x;
}

/// dL/dx of a branch that was fed `branch_input`, added to the stream's own.
void add_branch(const Branch& branch, const Matrix& x, const Matrix& d_branch, Matrix& d_x) {
  if (branch.pre) {
    add(through(branch.config, branch.norm, x.view(), d_branch.view()).view(), d_x);
  } else {
    add(d_branch.view(), d_x);
  }
}

/// From dL/d(what leaves a layer) to dL/d(what enters it).
void layer_gradient(const Trace& trace, std::size_t index, Matrix& d_x,
                    std::vector<LogitGradient::Head>& heads) {
  const LayerConfig& layer = trace.model.config().layers[index];
  const Lease<LayerWeights> lease = trace.model.layer(index);
  const LayerWeights& weights = *lease;
  const LayerTrace& at = trace.layers[index];
  if (layer.mlp.width > 0) {
    if (is_post(layer)) d_x = through(layer.norm, weights.mlp_norm, at.fed.view(), d_x.view());
    const Branch branch = mlp_branch(layer, weights);
    const Matrix fed = branch_input(branch, at.mixed);
    add_branch(branch, at.mixed, mlp_gradient(layer.mlp, weights.mlp, fed, d_x, trace.pool), d_x);
  }
  if (is_post(layer)) d_x = through(layer.norm, weights.attention_norm, at.attended.view(), d_x.view());
  const Branch branch = attention_branch(layer, weights);
  const Matrix fed = branch_input(branch, at.x);
  add_branch(branch, at.x, attention_gradient(trace, index, fed, d_x, heads), d_x);
}

/// Row `position` of the stream through the final norm and the output head: the logit and dL/d(stream) [n,
/// d].
Matrix head_gradient(const Trace& trace, LogitTarget target, LogitGradient& result) {
  const ModelConfig& config = trace.model.config();
  const Lease<HeadWeights> lease = trace.model.head();
  const HeadWeights& weights = *lease;
  const MatrixView<const double> row = trace.last.view().row_range(target.position, 1);
  Matrix x = apply(config.final_norm, trace.model.final_norm(), row);
  Matrix transformed, activated;
  if (config.head.transform) {
    transformed = apply(weights.transform, x.view(), trace.pool);
    activated = transformed;
    for (double& value : activated.values()) value = activate(config.head.activation, value);
    x = apply(config.head.norm, weights.transform_norm, activated.view());
  }
  const Matrix logits = apply(weights.decoder, x.view(), trace.pool);
  const auto largest = std::max_element(logits.values().begin(), logits.values().end());
  result.token = target.token.value_or(static_cast<std::size_t>(largest - logits.values().begin()));
  result.logit = logits.values()[result.token];

  Matrix one(1, 1);
  one(0, 0) = 1;
  Matrix d = through(weights.decoder.outputs(result.token, 1), one.view());
  if (config.head.transform) {
    d = through(config.head.norm, weights.transform_norm, activated.view(), d.view());
    for (std::size_t c = 0; c < d.cols(); ++c) d(0, c) *= slope(config.head.activation, transformed(0, c));
    d = through(weights.transform, d.view());
  }
  d = through(config.final_norm, trace.model.final_norm(), row, d.view());
  Matrix d_last(trace.last.rows(), trace.last.cols());
  std::copy_n(d.values().begin(), d.cols(), d_last.view().row(target.position).begin());
  return d_last;
}

/// Back through the embedding's norm and projection, to the rows of the token table.
void embedding_gradient(const Trace& trace, const Matrix& d_x, LogitGradient& result) {
  const EmbeddingConfig& config = trace.model.config().embedding;
  const Lease<EmbeddingWeights> lease = trace.model.embedding();
  const EmbeddingWeights& weights = *lease;
  result.d_embedding = weights.projection.present() ? through(weights.projection, d_x.view()) : d_x;
  const Matrix sum = reference::embedding_sum(reference::Embedding(trace.model), trace.sequence);
  if (config.norm.kind != NormKind::none)
    result.d_embedding = through(config.norm, weights.norm, sum.view(), result.d_embedding.view());
  result.embedding = reference::token_embeddings(reference::Embedding(trace.model), trace.sequence);
}

}  // namespace

LogitGradient logit_gradient(const Model& model, const Sequence& sequence, LogitTarget target, Pool& pool) {
  check_gradient(model, sequence);
  const std::size_t layers = model.config().layers.size();
  Trace trace{model, sequence, pool, run_reference(model, sequence, layers - 1, false, pool), {}, {}};
  if (trace.pass.layers.back().z.empty())
    fail(Status::bad_input, "{}: layer {} has no values (W_v)", escaped(model.name()), layers - 1);
  trace_layers(trace);
  LogitGradient result;
  Matrix d_x = head_gradient(trace, target, result);
  result.layers.resize(layers);
  for (std::size_t i = layers; i-- > 0;) layer_gradient(trace, i, d_x, result.layers[i]);
  embedding_gradient(trace, d_x, result);
  return result;
}

}  // namespace attnctl

#include <utility>

#include "base/error.hpp"
#include "forward/block.hpp"
#include "reference/gradient.hpp"

namespace attnctl::reference {
namespace {

/// The values of the residual stream in a layer that its gradient needs.
struct LayerTrace {
  Matrix input;       // before the norm of NormPlace::stream
  Matrix x;           // what the attention output is added to
  Matrix sum;         // x + attention term
  Matrix attended;    // `sum`, normalised if the norms are post-norm
  Matrix mlp_stream;  // what the output of the MLP is added to
  Matrix mlp_input;   // the input of the MLP
  Matrix mlp_output;  // before norms and the residual multiplier
  Matrix mlp_sum;     // mlp_stream + MLP term
  Matrix output;      // before the convolution
};

/// A forward pass, with all values that its gradient needs.
struct PassTrace {
  const model::Model& model;
  const input::Sequence& sequence;
  Pool& pool;
  ReferencePass pass;
  std::vector<LayerTrace> layers;
  Matrix embedded;     // the input of the first layer
  Matrix encoder_end;  // the output of the encoder before its norm; empty without a decoder
  Matrix memory;       // the output of the encoder; empty without a decoder
  Matrix last;         // the input of the final norm
};

/// Returns the norm of the input of the attention or the MLP; a norm of the kind `none` if it has none.
model::NormConfig input_norm(const model::LayerConfig& layer, const model::NormConfig& norm) {
  return reads_normalised(layer.place) ? norm : model::NormConfig{};
}

/// Computes the values of a layer for its input x. Returns the output of the layer.
Matrix trace_layer(PassTrace& trace, std::size_t index, Matrix x) {
  const model::LayerConfig& layer = trace.model.config().layers[index];
  const model::Lease<model::LayerWeights> weights = trace.model.layer(index);
  const bool post = layer.place == model::NormPlace::post;
  const bool stream = layer.place == model::NormPlace::stream;
  LayerTrace& at = trace.layers.emplace_back();
  at.input = std::move(x);
  at.x = stream ? apply(layer.norm, weights->attention_norm, at.input) : at.input;
  at.sum = at.x + residual_term(layer, linalg::to_matrix(trace.pass.layers[index].output.view()),
                                weights->attention_norm, weights->attention_output_norm);
  at.attended = post ? apply(layer.norm, weights->attention_norm, at.sum) : at.sum;
  at.output = at.attended;
  if (layer.mlp.width > 0) {
    at.mlp_stream = stream ? apply(layer.norm, weights->mlp_norm, at.attended) : at.attended;
    at.mlp_input =
        apply(input_norm(layer, layer.norm), weights->mlp_norm, layer.parallel ? at.x : at.mlp_stream);
    at.mlp_output = run_mlp(layer, *weights, at.mlp_input, trace.pool);
    at.mlp_sum =
        at.mlp_stream + residual_term(layer, at.mlp_output, weights->mlp_norm, weights->mlp_output_norm);
    at.output = post ? apply(layer.norm, weights->mlp_norm, at.mlp_sum) : at.mlp_sum;
  }
  return add_convolution(layer, *weights, trace.embedded, at.output);
}

/// Computes the residual stream of each layer again, from the attention outputs that the pass stored.
void trace_layers(PassTrace& trace) {
  const model::ModelConfig& config = trace.model.config();
  trace.embedded = embed({config.embedding, trace.model.embedding()}, trace.sequence, trace.pool);
  Matrix x = trace.embedded;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (forward::needs_target(config.layers[i].component) && trace.memory.size() == 0) {
      trace.encoder_end = x;
      trace.memory = apply(config.decoder->encoder_norm, trace.model.encoder_norm(), x);
      x = embed({config.decoder->embedding, trace.model.target_embedding()}, *trace.sequence.target,
                trace.pool);
    }
    x = trace_layer(trace, i, std::move(x));
  }
  trace.last = std::move(x);
}

/// Returns the derivative of the output of the attention or the MLP, given that of the term that is added to
/// the residual stream (see residual_term).
Matrix term_gradient(const model::LayerConfig& layer, const Matrix& output, const model::NormWeights& norm,
                     const model::NormWeights& output_norm, const Matrix& d_term) {
  Matrix d = double{layer.residual_multiplier} * d_term;
  if (layer.place == model::NormPlace::output) return backward(layer.norm, norm, output, d);
  if (layer.place == model::NormPlace::both) return backward(layer.norm, output_norm, output, d);
  return d;
}

/// The derivatives that later steps of the backward pass add to.
struct Collected {
  Matrix d_memory;    // of the encoder's output; empty without a decoder
  Matrix d_embedded;  // of the embeddings, by convolutions
};

/// Returns d_x for the stream of a layer to which the attention output is added, by the MLP of the layer and
/// by the residual connections, and changes d to the derivative of that sum.
Matrix through_mlp(const PassTrace& trace, std::size_t index, Matrix& d) {
  const model::LayerConfig& layer = trace.model.config().layers[index];
  const model::Lease<model::LayerWeights> weights = trace.model.layer(index);
  const LayerTrace& at = trace.layers[index];
  Matrix d_x = xt::zeros_like(at.x);
  if (layer.mlp.width > 0) {
    if (layer.place == model::NormPlace::post) d = backward(layer.norm, weights->mlp_norm, at.mlp_sum, d);
    const Matrix d_output =
        term_gradient(layer, at.mlp_output, weights->mlp_norm, weights->mlp_output_norm, d);
    const Matrix d_input = mlp_gradient(layer, *weights, at.mlp_input, d_output, trace.pool);
    const Matrix d_stream = backward(input_norm(layer, layer.norm), weights->mlp_norm,
                                     layer.parallel ? at.x : at.mlp_stream, d_input);
    (layer.parallel ? d_x : d) += d_stream;
    if (layer.place == model::NormPlace::stream) d = backward(layer.norm, weights->mlp_norm, at.attended, d);
  }
  if (layer.place == model::NormPlace::post) d = backward(layer.norm, weights->attention_norm, at.sum, d);
  return d_x + d;
}

/// Returns d_x of a layer's input, given d_x of its output. Stores the d_z of its heads.
Matrix layer_gradient(const PassTrace& trace, std::size_t index, Matrix d, Collected& collected,
                      std::vector<OwnedMatrix<double>>& d_z) {
  const model::LayerConfig& layer = trace.model.config().layers[index];
  const model::Lease<model::LayerWeights> weights = trace.model.layer(index);
  const LayerTrace& at = trace.layers[index];
  if (layer.convolution) {
    auto [d_embeddings, d_x] = convolution_gradient(layer, *weights, trace.embedded, at.output, d);
    collected.d_embedded += d_embeddings;
    d = std::move(d_x);
  }
  Matrix d_x = through_mlp(trace, index, d);
  const ReferenceLayer& pass = trace.pass.layers[index];
  const Matrix d_output = term_gradient(layer, linalg::to_matrix(pass.output.view()), weights->attention_norm,
                                        weights->attention_output_norm, d);
  const bool cross = layer.component == model::Component::cross;
  const model::NormConfig norm = input_norm(layer, layer.attention_norm());
  const Matrix queries = apply(norm, weights->attention_norm, at.x);
  const Matrix& keys = cross ? trace.memory : queries;
  const input::Sequence& masks =
      layer.component == model::Component::decoder ? *trace.sequence.target : trace.sequence;
  AttentionGradient attention =
      attention_gradient(layer.attention, *weights, {masks, queries, keys, keys}, pass, d_output, trace.pool);
  for (const Matrix& head : attention.d_z) d_z.push_back(linalg::to_owned(head));
  (cross ? collected.d_memory : attention.d_queries) += attention.d_keys + attention.d_values;
  d_x += backward(norm, weights->attention_norm, at.x, attention.d_queries);
  if (layer.place == model::NormPlace::stream)
    d_x = backward(layer.norm, weights->attention_norm, at.input, d_x);
  return d_x;
}

/// Returns d_x of rows x [queries, d] of the input of the final norm.
Matrix output_head_gradient(const model::Model& model, const Matrix& x,
                            const std::function<Matrix(const Matrix&)>& d_logits, Pool& pool) {
  const model::ModelConfig& config = model.config();
  const model::HeadConfig& head = config.head;
  const model::Lease<model::HeadWeights> weights = model.head();
  Matrix stream = apply(config.final_norm, model.final_norm(), x);
  if (weights->projection.present()) stream = apply(weights->projection, stream, pool);
  Matrix transformed, activated;
  if (head.transform) {
    transformed = apply(weights->transform, stream, pool);
    activated = activate(head.activation, transformed);
    stream = apply(head.norm, weights->transform_norm, activated);
  }
  Matrix logits = double{head.multiplier} * apply(weights->decoder, stream, pool);
  const double cap = head.soft_cap;
  if (cap > 0) logits = cap * xt::tanh(logits / cap);

  Matrix d = d_logits(logits);
  if (cap > 0) d *= 1 - xt::square(logits / cap);
  d *= double{head.multiplier};
  d = backward(weights->decoder, d, pool);
  if (head.transform) {
    d = backward(head.norm, weights->transform_norm, activated, d);
    d = backward(weights->transform, d * derivative(head.activation, transformed), pool);
  }
  if (weights->projection.present()) d = backward(weights->projection, d, pool);
  return backward(config.final_norm, model.final_norm(), x, d);
}

}  // namespace

PassGradient pass_gradient(const model::Model& model, const input::Sequence& sequence,
                           std::span<const std::size_t> queries,
                           const std::function<Matrix(const Matrix&)>& d_logits, Pool& pool) {
  const model::ModelConfig& config = model.config();
  const std::size_t layers = config.layers.size();
  PassTrace trace{model, sequence, pool, run_reference(model, sequence, layers - 1, false, pool), {}, {},
                  {},    {},       {}};
  if (trace.pass.layers.back().z.empty())
    fail(Status::bad_input, "{}: layer {} has no values (W_v), which gradients need", escaped(model.name()),
         layers - 1);
  trace_layers(trace);

  Matrix rows = Matrix::from_shape({queries.size(), trace.last.shape(1)});
  for (std::size_t q = 0; q < queries.size(); ++q)
    xt::view(rows, q, xt::all()) = xt::view(trace.last, queries[q], xt::all());
  const Matrix d_rows = output_head_gradient(model, rows, d_logits, pool);
  Matrix d_x = xt::zeros_like(trace.last);
  for (std::size_t q = 0; q < queries.size(); ++q)
    xt::view(d_x, queries[q], xt::all()) += xt::view(d_rows, q, xt::all());

  PassGradient result;
  result.d_z.resize(layers);
  Collected collected{xt::zeros_like(trace.memory), xt::zeros_like(trace.embedded)};
  for (std::size_t i = layers; i-- > 0;) {
    d_x = layer_gradient(trace, i, std::move(d_x), collected, result.d_z[i]);
    const bool enters_decoder = i > 0 && forward::needs_target(config.layers[i].component) &&
                                !forward::needs_target(config.layers[i - 1].component);
    if (enters_decoder)
      d_x =
          backward(config.decoder->encoder_norm, model.encoder_norm(), trace.encoder_end, collected.d_memory);
  }
  result.d_embedded = d_x + collected.d_embedded;
  result.pass = std::move(trace.pass);
  return result;
}

}  // namespace attnctl::reference

#include "reference/reference.hpp"

#include "base/error.hpp"
#include "forward/block.hpp"
#include "reference/layers.hpp"

namespace attnctl::reference {
namespace {

/// Returns the residual stream after the attention and the MLP of a layer. `before` is the stream that the
/// attention output `attention` is added to.
Matrix finish_layer(const model::LayerConfig& config, const model::LayerWeights& weights,
                    const Matrix& before, const Matrix& attention, Pool& pool, const Edit& edit_mlp) {
  Matrix x = before + residual_term(config, attention, weights.attention_norm, weights.attention_output_norm);
  if (config.place == model::NormPlace::post) x = apply(config.norm, weights.attention_norm, x);
  if (config.mlp.width == 0) return x;
  if (config.place == model::NormPlace::stream) x = apply(config.norm, weights.mlp_norm, x);
  const Matrix& stream = config.parallel ? before : x;
  const Matrix mlp =
      run_mlp(config, weights,
              reads_normalised(config.place) ? apply(config.norm, weights.mlp_norm, stream) : stream, pool);
  x += residual_term(config, mlp, weights.mlp_norm, weights.mlp_output_norm, edit_mlp);
  if (config.place == model::NormPlace::post) x = apply(config.norm, weights.mlp_norm, x);
  return x;
}

Matrix run_head(const model::Model& model, Matrix x, Pool& pool) {
  const model::HeadConfig& config = model.config().head;
  const model::Lease<model::HeadWeights> weights = model.head();
  if (weights->projection.present()) x = apply(weights->projection, x, pool);
  if (config.transform) {
    x = activate(config.activation, apply(weights->transform, x, pool));
    x = apply(config.norm, weights->transform_norm, x);
  }
  Matrix logits = apply(weights->decoder, x, pool);
  logits *= double{config.multiplier};
  if (const double cap = config.soft_cap; cap > 0) logits = cap * xt::tanh(logits / cap);
  return logits;
}

}  // namespace

ReferencePass run_reference(const model::Model& model, const input::Sequence& sequence,
                            std::size_t last_layer, bool logits, Pool& pool, const ReferenceEdits& edits) {
  const model::ModelConfig& config = model.config();
  const bool to_the_end = logits && config.head.present;
  const std::size_t count = to_the_end ? config.layers.size() : last_layer + 1;
  const Matrix key_embeddings = linalg::to_matrix(sequence.key_embeddings.view());
  const Matrix value_embeddings = linalg::to_matrix(sequence.value_embeddings.view());
  ReferencePass pass;
  Matrix x = embed({config.embedding, model.embedding()}, sequence, pool);
  const Matrix embeddings = x;
  Matrix memory;  // the encoder's output; empty until the decoder begins
  for (std::size_t i = 0; i < count; ++i) {
    const model::LayerConfig& layer = config.layers.at(i);
    const model::Lease<model::LayerWeights> weights = model.layer(i);
    if (forward::needs_target(layer.component) && memory.size() == 0) {
      memory = apply(config.decoder->encoder_norm, model.encoder_norm(), x);
      x = embed({config.decoder->embedding, model.target_embedding()}, *sequence.target, pool);
    }
    if (layer.place == model::NormPlace::stream) x = apply(layer.norm, weights->attention_norm, x);
    const Matrix queries =
        reads_normalised(layer.place) ? apply(layer.attention_norm(), weights->attention_norm, x) : x;
    const bool cross = layer.component == model::Component::cross;
    const Matrix& given_keys = cross ? memory : key_embeddings;
    const Matrix& keys = given_keys.size() > 0 ? given_keys : queries;
    const Matrix& values = !cross && value_embeddings.size() > 0 ? value_embeddings : keys;
    const input::Sequence& masks = layer.component == model::Component::decoder ? *sequence.target : sequence;
    const auto edit_with = [i](const auto& edit) {
      return edit ? Edit([&edit, i](MatrixView<double> edited) { edit(i, edited); }) : Edit();
    };
    ReferenceLayer result =
        attend(layer.attention, *weights, {masks, queries, keys, values}, pool, edit_with(edits.heads));
    if (i + 1 < count || to_the_end) {
      if (result.z.empty()) {
        fail(Status::bad_input,
             "{}: layer {} has no values (W_v), so later layers and logits cannot be computed; select "
             "layers up to {}",
             escaped(model.name()), i, i);
      }
      result.stream = linalg::to_owned(x);
      x = finish_layer(layer, *weights, x, linalg::to_matrix(result.output.view()), pool,
                       edit_with(edits.mlp));
      x = add_convolution(layer, *weights, embeddings, x);
    }
    if (i <= last_layer) pass.layers.push_back(std::move(result));
  }
  if (to_the_end)
    pass.logits = linalg::to_owned(run_head(model, apply(config.final_norm, model.final_norm(), x), pool));
  return pass;
}

}  // namespace attnctl::reference

#include "reference/gradient/gradient_check.hpp"

#include <string_view>

#include "base/error.hpp"

namespace attnctl {
namespace {

/// What there is no derivative of here; empty where there is one.
std::string_view without_gradient(const ModelConfig& config) {
  if (config.head.projection.weight || config.head.multiplier != 1 || config.head.soft_cap != 0)
    return "logits that are projected, scaled or capped";
  if (config.embedding.dropout) return "embeddings that are scaled by the share of a token";
  if (config.embedding.projected_first && config.embedding.projection.weight)
    return "embeddings that are projected before their norm";
  if (config.embedding.positions_last) return "positions added behind a projection";
  for (const LayerConfig& layer : config.layers) {
    const AttentionConfig& attention = layer.attention;
    if (layer.place == NormPlace::output || layer.place == NormPlace::both ||
        layer.place == NormPlace::stream)
      return "norms of what a branch gives";
    if (layer.parallel || layer.residual_multiplier != 1) return "branches in parallel or scaled";
    if (layer.experts.count > 0) return "experts";
    if (attention.disentangled) return "disentangled attention";
    if (layer.convolution) return "a convolution";
    if (attention.clip != 0 || attention.soft_cap != 0 || attention.sinks) return "clamped scores or sinks";
    if (attention.head_norm_span != HeadNormSpan::shared) return "norms of queries over several heads";
  }
  return {};
}

}  // namespace

void check_gradient(const Model& model, const Sequence& sequence) {
  if (const std::string_view what = without_gradient(model.config()); !what.empty())
    fail(Status::bad_input, "{}: gradients are unsupported for {}", escaped(model.name()), what);
  if (!model.config().head.present)
    fail(Status::bad_input, "{}: has no output head, so that there is no logit to trace back",
         escaped(model.name()));
  if (model.config().decoder || model.config().embedding.multiplier != 1)
    fail(Status::bad_input,
         "{}: gradients are unsupported where a decoder reads an encoder, and of embeddings that are "
         "multiplied",
         escaped(model.name()));
  if (sequence.key_embeddings.rows() > 0)
    fail(Status::bad_input, "input {}: gradients need queries and keys that are the same tokens",
         escaped(sequence.id));
}

}  // namespace attnctl

#include <memory>
#include <utility>

#include "support/mutations.hpp"

namespace attnctl::test {
namespace {

/// Returns a mutation of a part of the attention configuration that layers share.
template <typename Part>
Mutation in_part(std::string name, std::shared_ptr<const Part> model::AttentionConfig::*member,
                 std::function<bool(Part&)> change) {
  return in_attention(std::move(name),
                      [member, change = std::move(change)](model::AttentionConfig& attention) {
                        if (!(attention.*member)) return false;
                        Part part = *(attention.*member);
                        if (!change(part)) return false;
                        attention.*member = std::make_shared<const Part>(std::move(part));
                        return true;
                      });
}

Mutation in_buckets(std::string name, std::function<bool(model::RelativeBuckets&)> change) {
  return in_part<model::RelativeBuckets>(std::move(name), &model::AttentionConfig::relative_buckets,
                                         std::move(change));
}

Mutation in_disentangled(std::string name, std::function<bool(model::DisentangledConfig&)> change) {
  return in_part<model::DisentangledConfig>(std::move(name), &model::AttentionConfig::disentangled,
                                            std::move(change));
}

}  // namespace

std::vector<Mutation> distance_mutations() {
  return {
      in_buckets("buckets of distances",
                 [](model::RelativeBuckets& b) {
                   b.buckets /= 2;
                   return true;
                 }),
      in_buckets("reach of the buckets",
                 [](model::RelativeBuckets& b) {
                   b.max_distance = b.buckets / (b.bidirectional ? 4 : 2) + 1;
                   return true;
                 }),
      in_buckets("direction of the buckets",
                 [](model::RelativeBuckets& b) {
                   b.bidirectional = !b.bidirectional;
                   return true;
                 }),
      in_disentangled(
          "contents against positions",
          [](model::DisentangledConfig& d) { return std::exchange(d.content_to_position, false); }),
      in_disentangled(
          "positions against contents",
          [](model::DisentangledConfig& d) { return std::exchange(d.position_to_content, false); }),
      in_disentangled("logarithm of distances",
                      [](model::DisentangledConfig& d) { return std::exchange(d.logarithmic, false); }),
      in_disentangled("reach of the logarithm",
                      [](model::DisentangledConfig& d) {
                        d.max_distance /= 2;
                        return d.logarithmic;
                      }),
      in_disentangled("norm of distances", [](model::DisentangledConfig& d) { return remove_norm(d.norm); }),
      in_layers("convolution",
                [](model::LayerConfig& layer) { return std::exchange(layer.convolution, {}) != nullptr; }),
      in_layers("activation of the convolution",
                [](model::LayerConfig& layer) {
                  if (!layer.convolution) return false;
                  model::ConvolutionConfig convolution = *layer.convolution;
                  convolution.activation = convolution.activation == model::Activation::relu
                                               ? model::Activation::tanh
                                               : model::Activation::relu;
                  layer.convolution = std::make_shared<const model::ConvolutionConfig>(convolution);
                  return true;
                }),
      in_layers("norm of the attention alone",
                [](model::LayerConfig& layer) {
                  if (layer.place != model::NormPlace::pre) return false;
                  layer.attention_normed = !layer.attention_normed;
                  return true;
                }),
      {"token dropout",
       [](Subject& s) { return std::exchange(s.config.embedding.dropout, std::nullopt).has_value(); }},
      {"embeddings of hidden tokens",
       [](Subject& s) { return std::exchange(s.config.embedding.zero_hidden, false); }},
      {"projection of embeddings before their norm",
       [](Subject& s) {
         s.config.embedding.projected_first = !s.config.embedding.projected_first;
         return s.config.embedding.projection.weight && s.config.embedding.norm.kind != model::NormKind::none;
       }},
  };
}

}  // namespace attnctl::test

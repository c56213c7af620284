#include "support/mutations.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace attnctl::test {
namespace {

/// Returns another norm place that binds the same tensors.
model::NormPlace other_place(model::NormPlace place) {
  switch (place) {
    case model::NormPlace::pre:
    case model::NormPlace::output:
      return model::NormPlace::post;
    case model::NormPlace::post:
    case model::NormPlace::both:
    case model::NormPlace::stream:
      return model::NormPlace::pre;
    case model::NormPlace::none:
      break;
  }
  return place;
}

/// Changes packed tensors to another packing with the same number of outputs. Returns false if there are
/// none.
bool repack(model::FamilySpec& row) {
  bool changed = false;
  model::LayerSpec& layer = row.layer;
  for (model::LinearSpec* spec : {&layer.query, &layer.key, &layer.value}) {
    for (auto* tensors : {&spec->weight, &spec->bias}) {
      for (model::StoredTensor& tensor : *tensors) {
        if (tensor.packing == model::Packing::whole) continue;
        tensor.packing = tensor.packing == model::Packing::query_key_value ? model::Packing::by_key_head
                                                                           : model::Packing::query_key_value;
        changed = true;
      }
    }
  }
  return changed;
}

bool repack_gate(model::FamilySpec& row) {
  bool changed = false;
  model::LayerSpec& layer = row.layer;
  std::vector<model::LinearSpec*> specs = {&layer.mlp.gate, &layer.mlp.up};
  if (layer.experts) specs = {&layer.experts->each.gate, &layer.experts->each.up};
  for (model::LinearSpec* spec : specs) {
    for (auto* tensors : {&spec->weight, &spec->bias}) {
      for (model::StoredTensor& tensor : *tensors) {
        if (tensor.packing == model::Packing::whole) continue;
        tensor.packing = tensor.packing == model::Packing::gate_up ? model::Packing::gate_up_by_turns
                                                                   : model::Packing::gate_up;
        changed = true;
      }
    }
  }
  return changed;
}

}  // namespace

Mutation in_layers(std::string name, std::function<bool(model::LayerConfig&)> change) {
  return {std::move(name), [change = std::move(change)](Subject& subject) {
            bool changed = false;
            for (model::LayerConfig& layer : subject.config.layers) changed = change(layer) || changed;
            return changed;
          }};
}

Mutation in_attention(std::string name, std::function<bool(model::AttentionConfig&)> change) {
  return in_layers(std::move(name), [change = std::move(change)](model::LayerConfig& layer) {
    return change(layer.attention);
  });
}

bool flip_kind(model::NormConfig& norm) {
  if (norm.kind == model::NormKind::none) return false;
  norm.kind = norm.kind == model::NormKind::layer ? model::NormKind::rms : model::NormKind::layer;
  return true;
}

bool remove_norm(model::NormConfig& norm) {
  if (norm.kind == model::NormKind::none) return false;
  norm = {};
  return true;
}

bool grow(float& value) {
  if (value == 0) return false;
  value *= 1.3F;
  return true;
}

bool grow(double& value) {
  if (value == 0) return false;
  value *= 1.3;
  return true;
}

std::vector<Mutation> layer_mutations() {
  return {
      in_layers("norm kind", [](model::LayerConfig& l) { return flip_kind(l.norm); }),
      in_layers("norm eps",
                [](model::LayerConfig& l) {
                  if (l.norm.kind == model::NormKind::none) return false;
                  l.norm.eps += 0.1F;
                  return true;
                }),
      in_layers("norm place",
                [](model::LayerConfig& l) {
                  return std::exchange(l.place, other_place(l.place)) != model::NormPlace::none;
                }),
      in_layers("parallel",
                [](model::LayerConfig& l) {
                  l.parallel = !l.parallel;
                  return l.place == model::NormPlace::pre && l.mlp.width > 0;
                }),
      in_layers("residual multiplier", [](model::LayerConfig& l) { return grow(l.residual_multiplier); }),
      in_layers("activation",
                [](model::LayerConfig& l) {
                  l.mlp.activation = l.mlp.activation == model::Activation::tanh ? model::Activation::relu
                                                                                 : model::Activation::tanh;
                  return l.mlp.width > 0 && l.experts.limit == 0;
                }),
      in_layers("experts of a token",
                [](model::LayerConfig& l) {
                  if (l.experts.per_token < 2) return false;
                  --l.experts.per_token;
                  return true;
                }),
      in_layers("weights of experts renormalised",
                [](model::LayerConfig& l) {
                  l.experts.renormalised = !l.experts.renormalised;
                  return l.experts.count > 0;
                }),
      in_layers("softmax of picked experts",
                [](model::LayerConfig& l) {
                  l.experts.softmax_after_topk = !l.experts.softmax_after_topk;
                  return l.experts.count > 0;
                }),
      in_layers("limit of experts", [](model::LayerConfig& l) { return grow(l.experts.limit); }),
      in_layers("alpha of experts",
                [](model::LayerConfig& l) {
                  l.experts.alpha *= 1.3;
                  return l.experts.limit > 0;
                }),
      in_layers("shared expert",
                [](model::LayerConfig& l) { return std::exchange(l.experts.shared_width, 0) > 0; }),
  };
}

std::vector<Mutation> other_mutations() {
  return {
      {"offset of gains",
       [](Subject& s) {
         s.row.gain_offset = 1 - s.row.gain_offset;
         return true;
       }},
      {"packing of queries, keys and values", [](Subject& s) { return repack(s.row); }},
      {"packing of gate and up", [](Subject& s) { return repack_gate(s.row); }},
      {"positions",
       [](Subject& s) {
         return std::exchange(s.config.embedding.position, model::PositionKind::none) !=
                model::PositionKind::none;
       }},
      {"positions of padding",
       [](Subject& s) { return std::exchange(s.config.embedding.padding, {}).has_value(); }},
      {"positions among visible tokens",
       [](Subject& s) {
         bool had = std::exchange(s.config.embedding.counts_visible, false) &&
                    s.config.embedding.position != model::PositionKind::none;
         for (model::LayerConfig& layer : s.config.layers) {
           if (!layer.attention.alibi || !layer.attention.alibi->counts_visible) continue;
           model::AlibiConfig alibi = *layer.attention.alibi;
           alibi.counts_visible = false;
           layer.attention.alibi = std::make_shared<const model::AlibiConfig>(alibi);
           had = true;
         }
         return had;
       }},
      {"multiplier of embeddings", [](Subject& s) { return grow(s.config.embedding.multiplier); }},
      {"place of positions",
       [](Subject& s) {
         s.config.embedding.positions_last = !s.config.embedding.positions_last;
         return s.config.embedding.position != model::PositionKind::none &&
                s.config.embedding.projection.weight;
       }},
      {"scale of each layer",
       [](Subject& s) {
         const double scale = s.config.layers.front().attention.scale;
         bool changed = false;
         for (model::LayerConfig& layer : s.config.layers)
           changed = std::exchange(layer.attention.scale, scale) != scale || changed;
         return changed;
       }},
      {"numbers of layers",
       [](Subject& s) {
         bool changed = false;
         for (model::LayerConfig& layer : s.config.layers)
           changed = std::exchange(layer.stored_as, std::size_t{0}) != 0 || changed;
         return changed;
       }},
      {"long rotary frequencies",
       [](Subject& s) {
         bool had = false;
         for (model::LayerConfig& layer : s.config.layers) {
           if (!layer.attention.rotary || layer.attention.rotary->long_inverse_frequency.empty()) continue;
           model::RotaryConfig rotary = *layer.attention.rotary;
           rotary.long_inverse_frequency.clear();
           layer.attention.rotary = std::make_shared<const model::RotaryConfig>(rotary);
           had = true;
         }
         return had;
       }},
      {"order of sines and cosines",
       [](Subject& s) {
         using attnctl::model::PositionKind;
         if (s.config.embedding.position != PositionKind::sinusoidal_halves) return false;
         s.config.embedding.position = PositionKind::sinusoidal;
         return true;
       }},
      {"norm of the encoder's output",
       [](Subject& s) { return s.config.decoder && remove_norm(s.config.decoder->encoder_norm); }},
      {"positions of the target",
       [](Subject& s) {
         return s.config.decoder &&
                std::exchange(s.config.decoder->embedding.position, attnctl::model::PositionKind::none) !=
                    attnctl::model::PositionKind::none;
       }},
      {"norm of the target's embeddings",
       [](Subject& s) { return s.config.decoder && remove_norm(s.config.decoder->embedding.norm); }},
      {"multiplier of the target's embeddings",
       [](Subject& s) { return s.config.decoder && grow(s.config.decoder->embedding.multiplier); }},
      {"token types", [](Subject& s) { return std::exchange(s.config.embedding.token_types, 0) > 0; }},
      {"norm of embeddings", [](Subject& s) { return remove_norm(s.config.embedding.norm); }},
      {"final norm", [](Subject& s) { return remove_norm(s.config.final_norm); }},
      {"multiplier of logits",
       [](Subject& s) { return s.config.head.present && grow(s.config.head.multiplier); }},
      {"cap of logits",
       [](Subject& s) {
         s.config.head.soft_cap = s.config.head.soft_cap > 0 ? 0 : 1;
         return s.config.head.present;
       }},
      {"activation of the head",
       [](Subject& s) {
         s.config.head.activation = s.config.head.activation == model::Activation::tanh
                                        ? model::Activation::relu
                                        : model::Activation::tanh;
         return s.config.head.present && s.config.head.transform;
       }},
  };
}

}  // namespace attnctl::test

#include "attnctl/base/error.hpp"
#include "attnctl/model/family.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/capture.hpp"
#include "support/golden.hpp"

using attnctl::AttentionConfig;
using attnctl::AttentionKind;
using attnctl::FamilySpec;
using attnctl::HeadNormSpan;
using attnctl::LayerConfig;
using attnctl::LinearSpec;
using attnctl::ModelConfig;
using attnctl::NormConfig;
using attnctl::NormKind;
using attnctl::NormPlace;
using attnctl::Packing;
using attnctl::RotaryConfig;
using attnctl::RotaryPairing;
using attnctl::test::CapturedHead;
using attnctl::test::CapturedSequence;
using attnctl::test::Golden;
using attnctl::test::GoldenArray;

// Every property that a row gives to a model is changed, one at a time, and each golden of the model must
// notice. What survives is listed here with the reason why it should.

namespace {

/// What a mutation works on: the row before it is resolved to nothing but names, and what it resolved to.
struct Subject {
  FamilySpec& row;
  ModelConfig& config;
};

/// Changes one property, or returns false where the model does not have it.
struct Mutation {
  std::string name;
  std::function<bool(Subject&)> apply;
};

using LayerChange = std::function<bool(LayerConfig&)>;

/// The same change in every layer that it fits.
Mutation in_layers(std::string name, LayerChange change) {
  return {std::move(name), [change = std::move(change)](Subject& subject) {
            bool changed = false;
            for (LayerConfig& layer : subject.config.layers) changed = change(layer) || changed;
            return changed;
          }};
}

Mutation in_attention(std::string name, std::function<bool(AttentionConfig&)> change) {
  return in_layers(std::move(name),
                   [change = std::move(change)](LayerConfig& layer) { return change(layer.attention); });
}

/// A change of how queries and keys are turned.
Mutation in_rotary(std::string name, std::function<bool(RotaryConfig&)> change) {
  return in_attention(std::move(name), [change = std::move(change)](AttentionConfig& attention) {
    if (!attention.rotary) return false;
    RotaryConfig rotary = *attention.rotary;
    if (!change(rotary)) return false;
    attention.rotary = std::make_shared<const RotaryConfig>(std::move(rotary));
    return true;
  });
}

Mutation in_alibi(std::string name, std::function<bool(attnctl::AlibiConfig&)> change) {
  return in_attention(std::move(name), [change = std::move(change)](AttentionConfig& attention) {
    if (!attention.alibi) return false;
    attnctl::AlibiConfig alibi = *attention.alibi;
    if (!change(alibi)) return false;
    attention.alibi = std::make_shared<const attnctl::AlibiConfig>(std::move(alibi));
    return true;
  });
}

/// Another place for norms that are bound alike.
NormPlace other_place(NormPlace place) {
  switch (place) {
    case NormPlace::pre:
      return NormPlace::post;
    case NormPlace::post:
      return NormPlace::pre;
    case NormPlace::both:
      return NormPlace::pre;
    case NormPlace::output:
      return NormPlace::post;
    case NormPlace::stream:
      return NormPlace::pre;
    case NormPlace::none:
      break;
  }
  return place;
}

bool flip_kind(NormConfig& norm) {
  if (norm.kind == NormKind::none) return false;
  norm.kind = norm.kind == NormKind::layer ? NormKind::rms : NormKind::layer;
  return true;
}

bool remove_norm(NormConfig& norm) {
  if (norm.kind == NormKind::none) return false;
  norm = {};
  return true;
}

bool grow(float& value) {
  if (value == 0) return false;
  value *= 1.3F;
  return true;
}

/// Another of the packings that fit as many outputs.
bool repack(FamilySpec& row) {
  bool changed = false;
  attnctl::LayerSpec& layer = row.stack.layer;
  for (LinearSpec* spec : {&layer.query, &layer.key, &layer.value}) {
    for (auto* tensors : {&spec->weight, &spec->bias}) {
      for (attnctl::StoredTensor& tensor : *tensors) {
        if (tensor.packing == Packing::whole) continue;
        tensor.packing =
            tensor.packing == Packing::query_key_value ? Packing::by_key_head : Packing::query_key_value;
        changed = true;
      }
    }
  }
  return changed;
}

bool repack_gate(FamilySpec& row) {
  bool changed = false;
  attnctl::LayerSpec& layer = row.stack.layer;
  std::vector<LinearSpec*> specs = {&layer.gate, &layer.up};
  if (layer.experts) specs = {&layer.experts->gate, &layer.experts->up};
  for (LinearSpec* spec : specs) {
    for (auto* tensors : {&spec->weight, &spec->bias}) {
      for (attnctl::StoredTensor& tensor : *tensors) {
        if (tensor.packing == Packing::whole) continue;
        tensor.packing = tensor.packing == Packing::gate_up ? Packing::gate_up_by_turns : Packing::gate_up;
        changed = true;
      }
    }
  }
  return changed;
}

std::vector<Mutation> attention_mutations() {
  return {
      in_attention("scale",
                   [](AttentionConfig& a) {
                     a.scale *= 1.3;
                     return true;
                   }),
      in_attention("causal",
                   [](AttentionConfig& a) {
                     a.causal = !a.causal;
                     return true;
                   }),
      in_attention("window",
                   [](AttentionConfig& a) {
                     if (a.kind.rule != AttentionKind::Rule::window) return false;
                     ++a.kind.size;
                     return true;
                   }),
      in_attention("window of some layers",
                   [](AttentionConfig& a) {
                     if (a.kind.rule != AttentionKind::Rule::window) return false;
                     a.kind = {};
                     return true;
                   }),
      in_attention("a window where there is none",
                   [](AttentionConfig& a) {
                     if (a.kind.rule != AttentionKind::Rule::full) return false;
                     a.kind = {AttentionKind::Rule::window, 2};
                     return true;
                   }),
      in_attention("clip",
                   [](AttentionConfig& a) {
                     a.clip = a.clip > 0 ? 0 : 0.1F;
                     return true;
                   }),
      in_attention("soft cap",
                   [](AttentionConfig& a) {
                     a.soft_cap = a.soft_cap > 0 ? 0 : 1;
                     return true;
                   }),
      in_attention("sinks", [](AttentionConfig& a) { return std::exchange(a.sinks, false); }),
      in_attention("query and key norm", [](AttentionConfig& a) { return remove_norm(a.head_norm); }),
      in_attention("kind of query and key norm", [](AttentionConfig& a) { return flip_kind(a.head_norm); }),
      in_attention("span of query and key norm",
                   [](AttentionConfig& a) {
                     if (a.head_norm.kind == NormKind::none) return false;
                     a.head_norm_span =
                         a.head_norm_span == HeadNormSpan::shared ? HeadNormSpan::each : HeadNormSpan::shared;
                     return true;
                   }),
      in_attention("rotary position",
                   [](AttentionConfig& a) { return std::exchange(a.rotary, {}) != nullptr; }),
      in_rotary("rotary pairing",
                [](RotaryConfig& r) {
                  r.pairing =
                      r.pairing == RotaryPairing::half ? RotaryPairing::interleaved : RotaryPairing::half;
                  return r.dims > 2;  // one pair is the same pair
                }),
      in_rotary("rotary frequencies",
                [](RotaryConfig& r) {
                  for (float& inverse : r.inverse_frequency) inverse *= 1.3F;
                  for (float& inverse : r.long_inverse_frequency) inverse *= 1.3F;
                  return true;
                }),
      in_rotary("rotary attention factor", [](RotaryConfig& r) { return grow(r.attention_factor); }),
      in_rotary("rotary part",
                [](RotaryConfig& r) {
                  if (r.dims < 4) return false;
                  r.dims -= 2;
                  r.inverse_frequency.pop_back();
                  if (!r.long_inverse_frequency.empty()) r.long_inverse_frequency.pop_back();
                  return true;
                }),
      in_attention("ALiBi", [](AttentionConfig& a) { return std::exchange(a.alibi, {}) != nullptr; }),
      in_alibi("ALiBi slopes",
               [](attnctl::AlibiConfig& a) {
                 for (float& slope : a.slopes) slope *= 1.3F;
                 return true;
               }),
      in_alibi("ALiBi rounding",
               [](attnctl::AlibiConfig& a) {
                 a.rounded = !a.rounded;
                 return true;
               }),
      in_alibi("ALiBi origin",
               [](attnctl::AlibiConfig& a) {
                 a.from_last = !a.from_last;
                 return true;
               }),
      in_attention("relative buckets",
                   [](AttentionConfig& a) { return std::exchange(a.relative_buckets, {}) != nullptr; }),
  };
}

std::vector<Mutation> layer_mutations() {
  return {
      in_layers("norm kind", [](LayerConfig& l) { return flip_kind(l.norm); }),
      in_layers("norm eps",
                [](LayerConfig& l) {
                  if (l.norm.kind == NormKind::none) return false;
                  l.norm.eps += 0.1F;
                  return true;
                }),
      in_layers(
          "norm place",
          [](LayerConfig& l) { return std::exchange(l.place, other_place(l.place)) != NormPlace::none; }),
      in_layers("parallel",
                [](LayerConfig& l) {
                  l.parallel = !l.parallel;
                  return l.place == NormPlace::pre && l.mlp.width > 0;
                }),
      in_layers("residual multiplier", [](LayerConfig& l) { return grow(l.residual_multiplier); }),
      in_layers("activation",
                [](LayerConfig& l) {
                  l.mlp.activation = l.mlp.activation == attnctl::Activation::tanh
                                         ? attnctl::Activation::relu
                                         : attnctl::Activation::tanh;
                  return l.mlp.width > 0 && l.experts.limit == 0;
                }),
      in_layers("experts of a token",
                [](LayerConfig& l) {
                  if (l.experts.per_token < 2) return false;
                  --l.experts.per_token;
                  return true;
                }),
      in_layers("weights of experts renormalised",
                [](LayerConfig& l) {
                  l.experts.renormalised = !l.experts.renormalised;
                  return l.experts.count > 0;
                }),
      in_layers("softmax of picked experts",
                [](LayerConfig& l) {
                  l.experts.softmax_of_picked = !l.experts.softmax_of_picked;
                  return l.experts.count > 0;
                }),
      in_layers("limit of experts", [](LayerConfig& l) { return grow(l.experts.limit); }),
      in_layers("alpha of experts",
                [](LayerConfig& l) {
                  l.experts.alpha *= 1.3;
                  return l.experts.limit > 0;
                }),
      in_layers("shared expert", [](LayerConfig& l) { return std::exchange(l.experts.shared_width, 0) > 0; }),
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
         return std::exchange(s.config.embedding.position, attnctl::PositionKind::none) !=
                attnctl::PositionKind::none;
       }},
      {"positions of padding",
       [](Subject& s) { return std::exchange(s.config.embedding.padding, {}).has_value(); }},
      {"positions among visible tokens",
       [](Subject& s) {
         bool had = std::exchange(s.config.embedding.counts_visible, false) &&
                    s.config.embedding.position != attnctl::PositionKind::none;
         for (LayerConfig& layer : s.config.layers) {
           if (!layer.attention.alibi || !layer.attention.alibi->counts_visible) continue;
           attnctl::AlibiConfig alibi = *layer.attention.alibi;
           alibi.counts_visible = false;
           layer.attention.alibi = std::make_shared<const attnctl::AlibiConfig>(alibi);
           had = true;
         }
         return had;
       }},
      {"multiplier of embeddings", [](Subject& s) { return grow(s.config.embedding.multiplier); }},
      {"place of positions",
       [](Subject& s) {
         s.config.embedding.positions_last = !s.config.embedding.positions_last;
         return s.config.embedding.position != attnctl::PositionKind::none &&
                s.config.embedding.projection.weight;
       }},
      {"scale of each layer",
       [](Subject& s) {
         const double scale = s.config.layers.front().attention.scale;
         bool changed = false;
         for (LayerConfig& layer : s.config.layers)
           changed = std::exchange(layer.attention.scale, scale) != scale || changed;
         return changed;
       }},
      {"numbers of layers",
       [](Subject& s) {
         bool changed = false;
         for (LayerConfig& layer : s.config.layers)
           changed = std::exchange(layer.stored_as, std::size_t{0}) != 0 || changed;
         return changed;
       }},
      {"long rotary frequencies",
       [](Subject& s) {
         bool had = false;
         for (LayerConfig& layer : s.config.layers) {
           if (!layer.attention.rotary || layer.attention.rotary->long_inverse_frequency.empty()) continue;
           RotaryConfig rotary = *layer.attention.rotary;
           rotary.long_inverse_frequency.clear();
           layer.attention.rotary = std::make_shared<const RotaryConfig>(rotary);
           had = true;
         }
         return had;
       }},
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
         s.config.head.activation = s.config.head.activation == attnctl::Activation::tanh
                                        ? attnctl::Activation::relu
                                        : attnctl::Activation::tanh;
         return s.config.head.present && s.config.head.transform;
       }},
  };
}

/// Whether the pattern, scores or logits of an input are further from the golden's than they may be.
bool differs(const Golden& golden, const std::string& name, double bound,
             const std::vector<const attnctl::OwnedMatrix<float>*>& parts) {
  if (!golden.has(name)) return false;
  const GoldenArray want = golden.array(name);
  std::size_t at = 0;
  for (const auto* part : parts) {
    for (const float value : part->values()) {
      if (at >= want.values.size()) return true;
      const double wanted = want.values[at++];
      if (wanted != double{value} && !(std::abs(wanted - double{value}) <= bound)) return true;
    }
  }
  return at != want.values.size();
}

bool notices(const Golden& golden, const std::vector<CapturedSequence>& captured) {
  for (std::size_t i = 0; i < captured.size(); ++i) {
    const std::string input = "_" + std::to_string(i);
    const auto heads = [&](attnctl::OwnedMatrix<float> CapturedHead::*what) {
      std::vector<const attnctl::OwnedMatrix<float>*> parts;
      for (const auto& [id, head] : captured[i].heads) parts.push_back(&(head.*what));
      return parts;
    };
    if (differs(golden, "pattern" + input, golden.array("bound_pattern").values.at(0),
                heads(&CapturedHead::pattern)) ||
        differs(golden, "scores" + input, 2e-5, heads(&CapturedHead::scores)))
      return true;
    std::vector<const attnctl::OwnedMatrix<float>*> outputs;
    for (const auto& [layer, output] : captured[i].output) outputs.push_back(&output);
    if (golden.has("output" + input) &&
        differs(golden, "output" + input, golden.array("bound_output").values.at(0), outputs))
      return true;
    if (golden.has("logits" + input) &&
        differs(golden, "logits" + input, golden.array("bound_logits").values.at(0), {&captured[i].logits}))
      return true;
  }
  return false;
}

/// The model with one property changed; a refusal to bind it is as good as a wrong number.
bool survives(const std::filesystem::path& directory, const Golden& golden, const attnctl::Batch& batch,
              const Mutation& mutation, bool& applies) {
  attnctl::Warnings warnings;
  auto source = attnctl::open_model_source(directory.string(), {}, warnings);
  FamilySpec row = attnctl::family_of(source.config_path.string(), source.config);
  ModelConfig config = attnctl::resolve_config(row, source);
  Subject subject{row, config};
  applies = mutation.apply(subject);
  if (!applies) return false;
  try {
    const auto model = attnctl::Model::bind(std::move(source), row, config, warnings);
    return !notices(golden, attnctl::test::capture_all(model, batch, {}));
  } catch (const attnctl::Error&) {
    return false;
  }
}

bool hides_a_key(const Golden& golden) {
  for (std::size_t i = 0; i < golden.inputs(); ++i) {
    if (std::ranges::count(golden.sequence(i).key_visible, 0) > 0) return true;
  }
  return false;
}

bool holds_token(const Golden& golden, std::size_t token) {
  for (std::size_t i = 0; i < golden.inputs(); ++i) {
    if (std::ranges::count(golden.sequence(i).ids, static_cast<std::int64_t>(token)) > 0) return true;
  }
  return false;
}

/// Whether the tensors of experts are one each: the stacked ones, which alone are packed, are not stored.
bool has_single_experts(const attnctl::Model& model) {
  const auto tensors = model.source().weights->tensors();
  return std::ranges::any_of(
      tensors, [](const auto& tensor) { return tensor.name.find("experts.1.") != std::string::npos; });
}

/// Why a mutation of this golden changes nothing; empty where it should have changed something.
std::string reason_to_survive(const std::string& mutation, const attnctl::Model& model,
                              const Golden& golden) {
  const ModelConfig& config = model.config();
  const LayerConfig& first = config.layers.front();
  const bool shows_logits = golden.has("logits_0");
  if (mutation == "ALiBi origin") return "the same for all keys of a query: softmax cancels it";
  if (mutation == "positions among visible tokens" && !hides_a_key(golden)) return "no input hides a key";
  if (mutation == "positions of padding" && !holds_token(golden, config.embedding.padding.value()))
    return "no input holds the token of padding";
  if (mutation == "packing of queries, keys and values" && first.attention.kv_heads == 1)
    return "with one key/value head the packings are the same";
  if (mutation == "packing of gate and up" && has_single_experts(model))
    return "the experts are stored one each, not packed";
  if (mutation == "weights of experts renormalised" && first.experts.softmax_of_picked)
    return "a softmax of the picked scores sums to 1";
  if (mutation == "softmax of picked experts" && config.layers.back().experts.renormalised)
    return "a softmax of all scores, renormalised over the picked, is a softmax of those";
  if (mutation == "offset of gains" && !first.norm.gain) return "its norms have no gains";
  const bool behind_layers =
      mutation == "final norm" || mutation == "multiplier of logits" || mutation == "cap of logits";
  if (behind_layers && !shows_logits) return "the golden has no logits";
  return {};
}

}  // namespace

TEST_CASE("a golden notices the change of any property of its row") {
  std::vector<Mutation> mutations = attention_mutations();
  for (const auto& more : {layer_mutations(), other_mutations()})
    mutations.insert(mutations.end(), more.begin(), more.end());
  std::size_t killed = 0;
  std::map<std::string, std::string> survivors;  // by mutation: the goldens and why
  for (const auto& directory : attnctl::test::golden_models()) {
    const Golden golden(directory);
    attnctl::Warnings warnings;
    const attnctl::Model model = attnctl::test::bind_model(directory, warnings);
    if (model.config().family == "attention" || !golden.has("pattern_0")) continue;
    attnctl::Batch batch;
    for (std::size_t i = 0; i < golden.inputs(); ++i) batch.sequences.push_back(golden.sequence(i));
    for (const Mutation& mutation : mutations) {
      bool applies = false;
      if (!survives(directory, golden, batch, mutation, applies)) {
        killed += applies ? 1 : 0;
        continue;
      }
      const std::string name = directory.filename().string();
      CAPTURE(name);
      CAPTURE(mutation.name);
      const std::string reason = reason_to_survive(mutation.name, model, golden);
      CHECK_MESSAGE(!reason.empty(), "survives without a reason");
      survivors[mutation.name + ": " + reason] += " " + name;
    }
  }
  CHECK(killed > 1000);
  for (const auto& [what, where] : survivors) MESSAGE("survives: ", what, " (", where, " )");
}

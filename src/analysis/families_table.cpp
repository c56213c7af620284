#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/model_summary.hpp"
#include "model/families/family.hpp"

namespace attnctl {
namespace {

using Words = std::vector<std::string>;

/// Joins words with commas. Returns an empty cell if there are none.
Cell joined(const Words& words) {
  return words.empty() ? Cell() : Cell(fmt::format("{}", fmt::join(words, ", ")));
}

/// Returns whether a family or one of its variants has a property.
template <typename Property>
bool may(const FamilySpec& row, const Property& property) {
  return property(row) || std::ranges::any_of(row.variants, [&](const Variant& variant) {
           FamilySpec other = row;
           variant.apply(other);
           return property(other);
         });
}

std::string kind_of(const FamilySpec& row) {
  if (row.sizes == SizesFrom::tensors) return "mechanism";
  if (!row.embedding.class_token.empty()) return "vision";
  if (row.decoder) return "encoder-decoder";
  return row.causal ? "decoder" : "encoder";
}

Cell norm_of(const FamilySpec& row) {
  Words words;
  if (row.norm == NormKind::layer) words.emplace_back(row.gain_offset != 0 ? "layer 1 + gain" : "layer");
  if (row.norm == NormKind::rms) words.emplace_back(row.gain_offset != 0 ? "rms 1 + gain" : "rms");
  const auto placed = [&](NormPlace place) {
    return may(row, [&](const FamilySpec& each) { return each.place == place; });
  };
  constexpr std::pair<NormPlace, const char*> places[] = {{NormPlace::pre, "pre"},
                                                          {NormPlace::post, "post"},
                                                          {NormPlace::output, "output"},
                                                          {NormPlace::both, "both"},
                                                          {NormPlace::stream, "stream"}};
  for (const auto& [place, name] : places) {
    if (placed(place)) words.emplace_back(name);
  }
  if (may(row, [](const FamilySpec& each) { return each.parallel; })) words.emplace_back("parallel");
  return joined(words);
}

Cell position_of(const FamilySpec& row) {
  Words words;
  const auto has = [&](PositionKind kind) {
    return may(row, [&](const FamilySpec& each) { return each.embedding_config.position == kind; });
  };
  if (has(PositionKind::learned)) words.emplace_back("learned");
  if (has(PositionKind::sinusoidal) || has(PositionKind::sinusoidal_halves)) words.emplace_back("sinusoidal");
  if (may(row, [](const FamilySpec& each) { return each.rotary.has_value(); })) {
    const bool interleaved = row.rotary && row.rotary->pairing == RotaryPairing::interleaved;
    words.emplace_back(interleaved ? "rotary interleaved" : "rotary");
    if (row.rotary && row.rotary->fraction != 1) words.back() += fmt::format(" {}", row.rotary->fraction);
  }
  if (may(row, [](const FamilySpec& each) { return each.alibi != AlibiSlopes::none; }))
    words.emplace_back("ALiBi");
  if (row.stack.relative) words.emplace_back("relative buckets");
  if (row.stack.disentangled) words.emplace_back("disentangled");
  return joined(words);
}

Cell activation_of(const FamilySpec& row) {
  if (row.keys.activation.default_value.empty()) return {};
  const LayerSpec& layer = row.stack.layer;
  const bool gated = !layer.gate.weight.empty() || (layer.experts && !layer.experts->gate.weight.empty());
  return row.keys.activation.default_value + (gated ? ", gated" : "");
}

Cell mask_of(const FamilySpec& row) {
  Words words;
  words.emplace_back(row.causal ? "causal" : "none");
  if (row.decoder) words.emplace_back("causal in the decoder");
  if (row.window) words.emplace_back("windows");
  return joined(words);
}

struct NamedPacking {
  Packing packing;
  const char* name;
};
constexpr NamedPacking kPackings[] = {
    {Packing::query_key_value, "q k v"},
    {Packing::by_head, "q k v by head"},
    {Packing::by_key_head, "q k v by group"},
    {Packing::in_four_blocks, "q v k in 4 blocks"},
    {Packing::gate_up, "gate up"},
    {Packing::gate_up_by_turns, "gate up by turns"},
};

Cell packing_of(const FamilySpec& row) {
  const auto packed = [](const FamilySpec& each, Packing packing) {
    const LayerSpec& layer = each.stack.layer;
    std::vector<const LinearSpec*> linears = {&layer.query, &layer.up};
    if (layer.experts) linears.push_back(&layer.experts->up);
    return std::ranges::any_of(linears, [&](const LinearSpec* linear) {
      return std::ranges::any_of(linear->weight,
                                 [&](const StoredTensor& tensor) { return tensor.packing == packing; });
    });
  };
  Words words;
  for (const auto& [packing, name] : kPackings) {
    if (may(row, [&, wanted = packing](const FamilySpec& each) { return packed(each, wanted); }))
      words.emplace_back(name);
  }
  const auto& query = row.stack.layer.query.weight;
  if (!query.empty() && query.front().axes == Axes::in_out) words.emplace_back("[in, out]");
  return joined(words);
}

bool is_set(const NumberKey& key, double neutral) {
  return !key.names.empty() || key.default_value != neutral;
}

Cell specials_of(const FamilySpec& row) {
  Words words;
  const ConfigKeys& keys = row.keys;
  const LayerSpec& layer = row.stack.layer;
  const auto add = [&](bool holds, const char* word) {
    if (holds) words.emplace_back(word);
  };
  add(!keys.kv_heads.names.empty(), "shared key/value heads");
  add(may(row, [](const FamilySpec& each) { return each.stack.layer.query_norm.present(); }), "norm of q, k");
  add(!layer.sinks.empty(), "sinks");
  add(layer.experts.has_value(), "experts");
  add(row.stack.convolution.has_value(), "convolution");
  add(row.token_dropout.has_value(), "token dropout");
  add(row.stack.numbering == Numbering::by_group, "layers share weights");
  add(may(row, [](const FamilySpec& each) { return is_set(each.keys.scale, 0); }), "scale of its own");
  add(is_set(keys.soft_cap, 0), "soft cap");
  add(is_set(keys.clip, 0), "clipped q, k, v");
  add(row.scale_embedding || is_set(keys.embedding_multiplier, 1), "scaled embedding");
  add(is_set(keys.residual_multiplier, 1), "scaled branches");
  add(is_set(keys.logit_multiplier, 1) || is_set(keys.logit_soft_cap, 0), "scaled logits");
  add(!row.embedding.projection.weight.empty(), "projected embedding");
  add(!keys.padding.names.empty() || keys.padding.default_value, "positions past the padding's");
  return joined(words);
}

}  // namespace

Table families_table() {
  std::vector<std::vector<Cell>> rows;
  for (const FamilySpec& row : families()) {
    rows.push_back({row.name, kind_of(row), norm_of(row), position_of(row), activation_of(row), mask_of(row),
                    packing_of(row), specials_of(row)});
  }
  return make_table("families",
                    {"name", "kind", "norm", "position", "activation", "mask", "packing", "specials"},
                    std::move(rows));
}

}  // namespace attnctl

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "model/config/config_reader.hpp"
#include "model/config/text_tower.hpp"
#include "model/families/family.hpp"
#include "model/families/family_parts.hpp"

namespace attnctl {
namespace {

using Rule = Presence::Rule;

/// One projection of the bare mechanism: `W_q` and `b_q` as row vectors multiply them, or as modules save
/// them.
LinearSpec bare(std::string_view letter, const std::vector<std::string>& modules) {
  LinearSpec spec = {.weight = {{fmt::format("W_{}", letter), Axes::in_out_or_head}},
                     .bias = {{fmt::format("b_{}", letter), Axes::in_out_or_head}},
                     .weight_presence = {.rule = Rule::stored},
                     .bias_presence = {.rule = Rule::stored}};
  for (const std::string& module : modules) {
    spec.weight.push_back({module + ".weight"});
    spec.bias.push_back({module + ".bias"});
  }
  return spec;
}

/// A factorised projection: the factor at the heads may be stored by head.
FactorSpec bare_factors(std::string_view letter, Axes first, Axes last) {
  return {.first = StoredTensor{fmt::format("W_{}_a", letter), first},
          .last = StoredTensor{fmt::format("W_{}_b", letter), last}};
}

/// The same for a projection of the input, or as torch.nn.MultiheadAttention saves it.
LinearSpec bare_input(std::string_view letter) {
  const auto named = [&](std::string_view pattern) { return fmt::format(fmt::runtime(pattern), letter); };
  LinearSpec spec = bare(letter, {named("W_{}"), named("w_{}"), named("{}_proj")});
  spec.weight.push_back({named("{}_proj_weight")});
  spec.weight.push_back({"in_proj_weight", Axes::out_in, Packing::query_key_value});
  spec.bias.push_back({"in_proj_bias", Axes::out_in, Packing::query_key_value});
  spec.factors = bare_factors(letter, Axes::in_out, Axes::in_out_or_head);
  return spec;
}

FamilySpec attention() {
  FamilySpec spec;
  spec.name = "attention";
  spec.prefixes = {""};
  spec.stack = {.prefixes = {"", "layers.{}."},
                .layer = {.query = bare_input("q"),
                          .key = bare_input("k"),
                          .value = bare_input("v"),
                          .output = bare("o", {"W_o", "w_o", "o_proj", "out_proj"})}};
  spec.stack.layer.query.weight_presence = {};
  spec.stack.layer.output.factors = bare_factors("o", Axes::in_out_or_head, Axes::in_out);
  spec.embedding = {.token = {"embedding"}};
  spec.sizes = SizesFrom::tensors;
  spec.keys = {.layers = {{"layers"}, 1},
               .heads = {{"heads"}, {}},
               .kv_heads = {{"kv_heads"}, {}},
               .d_head = {{"d_head"}, {}},
               .causal_if = "causal"};
  spec.requirements = {{"add_zero_attn", {false}}, {"position", {"none", "sinusoidal"}}};
  spec.refused_tensors = {"bias_k", "bias_v"};
  spec.one_name_each = true;
  return spec;
}

}  // namespace

std::span<const FamilySpec> families() {
  static const std::vector<FamilySpec> table = [] {
    std::vector<FamilySpec> all = {attention()};
    for (auto rows : {encoder_families(), encoder_families_of_distances(), decoder_families(),
                      alibi_families(), llama_families(), llama_relative_families(), expert_families(),
                      vision_families(), encoder_decoder_families()})
      std::ranges::move(rows, std::back_inserter(all));
    std::ranges::sort(all, {}, &FamilySpec::name);
    return all;
  }();
  return table;
}

namespace {

/// Whether the configuration, or what stands for a key that it lacks, has the variant's value.
bool applies(const Variant& variant, const ConfigReader& config) {
  const auto value = config.find(variant.key);
  if (!value) return variant.otherwise == variant.value;
  if (variant.value.is_boolean() && !value->json->is_boolean()) config.refuse(*value, "true or false");
  return *value->json == variant.value;
}

}  // namespace

FamilySpec family_of(const std::string& file, const nlohmann::ordered_json& config) {
  std::string supported;
  for (const FamilySpec& family : families()) {
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", family.name);
  }
  const ConfigReader reader = text_reader(file, config);
  const auto type = reader.find("model_type");
  if (!type || !type->json->is_string()) {
    fail(Status::bad_input, "{}: {}: missing or no string, need one of {} (attnctl info --families)",
         escaped(file), reader.pointer("model_type"), supported);
  }
  const auto name = type->json->get<std::string>();
  const auto found =
      std::ranges::find_if(families(), [&](const FamilySpec& family) { return family.name == name; });
  if (found == families().end()) {
    fail(Status::bad_input, "{}: {}: unsupported \"{}\"; supported: {} (attnctl info --families)",
         escaped(file), reader.pointer("model_type"), escaped(name), supported);
  }
  FamilySpec row = *found;
  if (!reader.whole().empty()) put_in_tower(row);
  for (const Variant& variant : found->variants) {
    if (applies(variant, reader)) variant.apply(row);
  }
  return row;
}

bool is_known_buffer(std::string_view tensor_name) {
  const auto named = [&](std::string_view end) {
    return tensor_name == end ||
           (tensor_name.ends_with(end) && tensor_name[tensor_name.size() - end.size() - 1] == '.');
  };
  return named("position_ids") || named("attn.bias") || named("attention.bias") || named("masked_bias") ||
         named("rotary_emb.inv_freq") || named("rotary_embeddings.inv_freq");
}

}  // namespace attnctl

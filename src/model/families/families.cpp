#include <algorithm>

#include "model/config/resolve.hpp"
#include "model/families/family_parts.hpp"

namespace attnctl::model {
namespace {

/// Returns the tensor names of one projection of a bare attention layer: W_LETTER and b_LETTER, or
/// MODULE.weight and MODULE.bias for one of `modules`.
LinearSpec bare_linear(std::string_view letter, const std::vector<std::string>& modules) {
  LinearSpec spec = {.weight = {{fmt::format("W_{}", letter), Axes::in_out_or_head}},
                     .bias = {{fmt::format("b_{}", letter), Axes::in_out_or_head}}};
  for (const std::string& module : modules) {
    spec.weight.push_back({module + ".weight"});
    spec.bias.push_back({module + ".bias"});
  }
  return spec;
}

/// Returns a query, key or value projection. Also accepts the names of torch.nn.MultiheadAttention, and two
/// factors.
LinearSpec bare_input(std::string_view letter) {
  LinearSpec spec = bare_linear(
      letter, {fmt::format("W_{}", letter), fmt::format("w_{}", letter), fmt::format("{}_proj", letter)});
  spec.weight.push_back({fmt::format("{}_proj_weight", letter)});
  spec.weight.push_back({"in_proj_weight", Axes::out_in, Packing::query_key_value});
  spec.bias.push_back({"in_proj_bias", Axes::out_in, Packing::query_key_value});
  spec.factors = {{fmt::format("W_{}_a", letter), Axes::in_out},
                  {fmt::format("W_{}_b", letter), Axes::in_out_or_head}};
  return spec;
}

void bare_attention(FamilySpec& spec) {
  spec.prefixes = {""};
  spec.layer_prefixes = {"", "layers.{}."};
  spec.layer.query = bare_input("q");
  spec.layer.key = bare_input("k");
  spec.layer.value = bare_input("v");
  spec.layer.output = bare_linear("o", {"W_o", "w_o", "o_proj", "out_proj"});
  spec.layer.output.factors = {{"W_o_a", Axes::in_out_or_head}, {"W_o_b", Axes::in_out}};
  spec.embedding.token = {"embedding"};
  spec.sizes_from_tensors = true;
  spec.norm = NormKind::none;
  spec.place = NormPlace::none;
  spec.keys.layers = {{"layers"}, 1};
  spec.keys.heads = {{"heads"}, {}};
  spec.keys.kv_heads = {{"kv_heads"}, {}};
  spec.keys.d_head = {{"d_head"}, {}};
  spec.keys.causal_if = "causal";
  spec.requirements = {{"add_zero_attn", {false}}, {"position", {"none", "sinusoidal"}}};
  spec.rejected_tensors = {"bias_k", "bias_v"};
}

/// Prefixes of the language model in a multimodal checkpoint, in current and older layouts.
constexpr const char* kTextPrefixes[] = {"language_model.", "model.language_model.", "text_model.",
                                         "model.text_model."};

void add_text_prefixes(FamilySpec& row) {
  std::vector<std::string> prefixes;
  for (const char* outer : kTextPrefixes) {
    for (const std::string& prefix : row.prefixes) prefixes.push_back(outer + prefix);
  }
  prefixes.insert(prefixes.end(), row.prefixes.begin(), row.prefixes.end());
  row.prefixes = std::move(prefixes);
  if (!row.head) return;
  HeadSpec& head = *row.head;
  for (auto* names :
       {&head.decoder.weight, &head.decoder.bias, &head.transform.weight, &head.transform.bias}) {
    const std::vector<StoredTensor> plain = *names;
    for (const char* outer : kTextPrefixes) {
      for (const auto& [name, axes, packing] : plain) names->push_back({outer + name, axes, packing});
    }
  }
}

bool applies(const Variant& variant, const ConfigReader& config) {
  const auto value = config.find(variant.key);
  if (!value) return variant.default_value == variant.value;
  if (variant.value.is_boolean() && !value->json->is_boolean()) config.reject(*value, "true or false");
  return *value->json == variant.value;
}

}  // namespace

std::span<const FamilySpec> families() {
  static const std::vector<FamilySpec> table = [] {
    std::vector<FamilySpec> all;
    const std::vector<FamilyRow> others = {{"attention", "", bare_attention}};
    for (const auto& rows : {others, encoder_families(), decoder_families(), llama_families()}) {
      for (const FamilyRow& row : rows) {
        const auto base = std::ranges::find(all, row.base, &FamilySpec::name);
        FamilySpec spec = base == all.end() ? FamilySpec{} : *base;
        spec.name = row.name;
        row.change(spec);
        all.push_back(std::move(spec));
      }
    }
    std::ranges::sort(all, {}, &FamilySpec::name);
    return all;
  }();
  return table;
}

FamilySpec family_of(const std::string& file, const nlohmann::ordered_json& config) {
  const std::string names = join_texts(families(), &FamilySpec::name);
  const ConfigReader reader = ConfigReader::of_text(file, config);
  const auto type = reader.find("model_type");
  if (!type || !type->json->is_string())
    reader.refuse({"model_type"}, "missing or not a string, need one of {} (attnctl info --families)", names);
  const auto name = type->json->get<std::string>();
  const auto found = std::ranges::find(families(), name, &FamilySpec::name);
  if (found == families().end()) {
    reader.refuse({"model_type"}, "unsupported \"{}\"; supported: {} (attnctl info --families)",
                  escaped(name), names);
  }
  FamilySpec row = *found;
  if (!reader.object_pointer().empty()) add_text_prefixes(row);
  for (const Variant& variant : found->variants) {
    if (applies(variant, reader)) variant.apply(row);
  }
  return row;
}

bool is_known_buffer(std::string_view tensor_name) {
  constexpr std::string_view kBuffers[] = {".position_ids",        ".attn.bias",
                                           ".attention.bias",      ".masked_bias",
                                           ".rotary_emb.inv_freq", ".rotary_embeddings.inv_freq"};
  const std::string name = fmt::format(".{}", tensor_name);
  return std::ranges::any_of(kBuffers, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace attnctl::model

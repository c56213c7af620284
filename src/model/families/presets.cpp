#include "model/families/presets.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

std::size_t exact_quotient(std::string_view what, std::size_t whole, std::string_view by, std::size_t part) {
  if (whole == 0 || part == 0)
    fail(Status::usage, "got {} {} and {} {}, need at least 1", whole, what, part, by);
  if (whole % part != 0) fail(Status::usage, "got {} {}, need a multiple of {} {}", whole, what, part, by);
  return whole / part;
}

/// Resolves a configuration in the family's own keys.
ModelConfig resolve_preset(nlohmann::ordered_json config) {
  ModelSource source;
  source.config = std::move(config);
  return resolve_config(source);
}

ModelConfig bert_preset(std::size_t d, std::size_t layers, std::size_t heads) {
  return resolve_preset({{"model_type", "bert"},
                         {"hidden_size", d},
                         {"num_hidden_layers", layers},
                         {"num_attention_heads", heads},
                         {"intermediate_size", 4 * d}});
}

ModelConfig gpt2_preset(std::size_t d, std::size_t layers, std::size_t heads, std::size_t positions) {
  return resolve_preset({{"model_type", "gpt2"},
                         {"n_embd", d},
                         {"n_layer", layers},
                         {"n_head", heads},
                         {"n_positions", positions}});
}

struct LlamaSizes {
  std::size_t d, layers, heads, kv_heads, mlp, positions;
};

ModelConfig llama_preset(const LlamaSizes& sizes) {
  return resolve_preset({{"model_type", "llama"},
                         {"hidden_size", sizes.d},
                         {"num_hidden_layers", sizes.layers},
                         {"num_attention_heads", sizes.heads},
                         {"num_key_value_heads", sizes.kv_heads},
                         {"intermediate_size", sizes.mlp},
                         {"max_position_embeddings", sizes.positions}});
}

/// The attention of a 6-layer Transformer encoder.
ModelConfig transformer_preset(std::size_t d, std::size_t heads) {
  return bare_config({.d_model = d, .heads = heads, .layers = 6});
}

/// A preset before its configuration is resolved: every command's help lists the names.
struct PresetRow {
  std::string_view name, alias, title;
  ModelConfig (*config)();
  std::size_t attentions_per_layer = 1;  // 3: a decoder with as many layers has two each
};
constexpr PresetRow kPresets[] = {
    {"transformer-base", "", "Transformer base: the attention of its encoder, without biases",
     [] { return transformer_preset(512, 8); }, 3},
    {"transformer-big", "", "Transformer big: the attention of its encoder, without biases",
     [] { return transformer_preset(1024, 16); }, 3},
    {"bert-base", "bert-base-uncased", "BERT base", [] { return bert_preset(768, 12, 12); }},
    {"bert-large", "bert-large-uncased", "BERT large", [] { return bert_preset(1024, 24, 16); }},
    {"gpt2", "gpt2-small", "GPT-2 small", [] { return gpt2_preset(768, 12, 12, 1024); }},
    {"gpt2-medium", "", "GPT-2 medium", [] { return gpt2_preset(1024, 24, 16, 1024); }},
    {"gpt2-large", "", "GPT-2 large", [] { return gpt2_preset(1280, 36, 20, 1024); }},
    {"gpt2-xl", "", "GPT-2 XL", [] { return gpt2_preset(1600, 48, 25, 1024); }},
    {"gpt3", "gpt3-175b", "GPT-3 175B", [] { return gpt2_preset(12288, 96, 96, 2048); }},
    {"llama-7b", "", "LLaMA 7B",
     [] {
       return llama_preset({4096, 32, 32, 32, 11008, 2048});
     }},
    {"llama-65b", "", "LLaMA 65B",
     [] {
       return llama_preset({8192, 80, 64, 64, 22016, 2048});
     }},
    {"llama2-70b", "llama-2-70b", "LLaMA-2 70B",
     [] {
       return llama_preset({8192, 80, 64, 8, 28672, 4096});
     }},
};

std::vector<Preset> make_presets() {
  std::vector<Preset> made;
  for (const PresetRow& row : kPresets) {
    Preset& preset = made.emplace_back();
    preset.name = row.name;
    if (!row.alias.empty()) preset.aliases.emplace_back(row.alias);
    preset.title = row.title;
    preset.config = row.config();
    preset.attentions = row.attentions_per_layer * preset.config.layers.size();
  }
  return made;
}

}  // namespace

ModelConfig bare_config(const BareSizes& sizes) {
  LayerConfig layer;
  AttentionConfig& attention = layer.attention;
  attention.heads = sizes.heads;
  attention.kv_heads = sizes.kv_heads.value_or(sizes.heads);
  (void)exact_quotient("heads", attention.heads, "key/value heads", attention.kv_heads);
  attention.d_head = sizes.d_head ? *sizes.d_head : exact_quotient("d", sizes.d_model, "heads", sizes.heads);
  attention.d_value = sizes.d_value.value_or(attention.d_head);
  if (sizes.d_model == 0 || sizes.layers == 0 || attention.d_head == 0 || attention.d_value == 0)
    fail(Status::usage, "got a size of 0, need at least 1");
  if (sizes.layers > max_layers || attention.d_head > max_head_width) {
    fail(Status::limit, "got {} layers with heads of {}, the limits are {} and {}", sizes.layers,
         attention.d_head, max_layers, max_head_width);
  }
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.d_head));
  attention.query = attention.key = attention.value = attention.output = {.weight = true, .bias = false};
  layer.place = NormPlace::none;
  ModelConfig config;
  config.family = "attention";
  config.d_model = config.d_key_input = config.d_value_input = config.d_output = sizes.d_model;
  config.embedding.width = sizes.d_model;
  config.layers.resize(sizes.layers, layer);
  for (std::size_t i = 0; i < sizes.layers; ++i) config.layers[i].number = config.layers[i].stored_as = i;
  return config;
}

std::span<const Preset> presets() {
  static const std::vector<Preset> table = make_presets();
  return table;
}

std::string preset_names() {
  std::string names;
  for (const PresetRow& row : kPresets) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
    if (!row.alias.empty()) names += fmt::format(" ({})", row.alias);
  }
  return names;
}

const Preset& preset_named(std::string_view name) {
  const auto named = [&](const Preset& preset) {
    return preset.name == name || std::ranges::count(preset.aliases, name) > 0;
  };
  const auto found = std::ranges::find_if(presets(), named);
  if (found != presets().end()) return *found;
  fail(Status::usage, "--preset: got {}, need one of {}", escaped(name), preset_names());
}

}  // namespace attnctl

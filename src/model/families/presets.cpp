#include "model/families/presets.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl::model {
namespace {

std::size_t exact_quotient(std::string_view what, std::size_t whole, std::string_view by, std::size_t part) {
  if (whole == 0 || part == 0)
    fail(Status::usage, "got {1} = {0} and {3} = {2}, need at least 1 for each", whole, what, part, by);
  if (whole % part != 0)
    fail(Status::usage, "got {1} = {0}, need a multiple of {2}, the number of {3}", whole, what, part, by);
  return whole / part;
}

constexpr Preset kPresets[] = {
    {"transformer-base", "", "Transformer base: the attention of its encoder, without biases", "", 512, 6, 8},
    {"transformer-big", "", "Transformer big: the attention of its encoder, without biases", "", 1024, 6, 16},
    {"bert-base", "bert-base-uncased", "BERT base", "bert", 768, 12, 12, 0, 3072},
    {"bert-large", "bert-large-uncased", "BERT large", "bert", 1024, 24, 16, 0, 4096},
    {"gpt2", "gpt2-small", "GPT-2 small", "gpt2", 768, 12, 12, 1024},
    {"gpt2-medium", "", "GPT-2 medium", "gpt2", 1024, 24, 16, 1024},
    {"gpt2-large", "", "GPT-2 large", "gpt2", 1280, 36, 20, 1024},
    {"gpt2-xl", "", "GPT-2 XL", "gpt2", 1600, 48, 25, 1024},
    {"gpt3", "gpt3-175b", "GPT-3 175B", "gpt2", 12288, 96, 96, 2048},
    {"llama-7b", "", "LLaMA 7B", "llama", 4096, 32, 32, 2048, 11008, 32},
    {"llama-65b", "", "LLaMA 65B", "llama", 8192, 80, 64, 2048, 22016, 64},
    {"llama2-70b", "llama-2-70b", "LLaMA-2 70B", "llama", 8192, 80, 64, 4096, 28672, 8},
};

}  // namespace

ModelConfig bare_config(const BareSizes& sizes) {
  LayerConfig layer;
  AttentionConfig& attention = layer.attention;
  attention.heads = sizes.heads;
  attention.kv_heads = sizes.kv_heads.value_or(sizes.heads);
  (void)exact_quotient("heads", attention.heads, "key/value heads", attention.kv_heads);
  attention.d_head = sizes.d_head ? *sizes.d_head : exact_quotient("d", sizes.d_model, "heads", sizes.heads);
  attention.d_value = sizes.d_value.value_or(attention.d_head);
  if (std::min({sizes.d_model, sizes.layers, attention.d_head, attention.d_value}) == 0)
    fail(Status::usage, "got 0 for d, the number of layers or the width of a head, need at least 1 for each");
  const std::size_t width = std::max(attention.d_head, attention.d_value);
  if (sizes.layers > kMaxLayers || width > kMaxHeadWidth) {
    fail(Status::limit, "got {} layers and heads of width {}, the limits are {} layers and a width of {}",
         sizes.layers, width, kMaxLayers, kMaxHeadWidth);
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

ModelConfig Preset::config() const {
  if (*type == '\0') return bare_config({.d_model = d_model, .heads = heads, .layers = layers});
  checkpoint::ModelSource source;
  source.config = {{"model_type", type},
                   {"hidden_size", d_model},
                   {"num_hidden_layers", layers},
                   {"num_attention_heads", heads}};
  if (positions > 0) source.config["max_position_embeddings"] = positions;
  if (mlp > 0) source.config["intermediate_size"] = mlp;
  if (kv_heads > 0) source.config["num_key_value_heads"] = kv_heads;
  return resolve_config(family_of("", source.config), source);
}

std::span<const Preset> presets() {
  return kPresets;
}

std::string preset_names() {
  return join_texts(kPresets, [](const Preset& row) {
    return std::string(row.name) + (row.alias.empty() ? "" : fmt::format(" ({})", row.alias));
  });
}

const Preset& preset_named(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name || (!name.empty() && preset.alias == name)) return preset;
  }
  fail(Status::usage, "--preset: got {}{}, need one of {}", escaped(name),
       did_you_mean(name, kPresets, &Preset::name), preset_names());
}

}  // namespace attnctl::model

#include "attnctl/base/error.hpp"
#include "attnctl/model/family.hpp"
#include "attnctl/model/presets.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/ranges.h>

#include "model/resolve.hpp"

namespace attnctl {
namespace {

std::size_t divided(std::string_view what, std::size_t whole, std::string_view by, std::size_t part) {
  if (whole == 0 || part == 0)
    fail(Status::usage, "got {} {} and {} {}, need at least 1", whole, what, part, by);
  if (whole % part != 0) fail(Status::usage, "got {} {}, need a multiple of {} {}", whole, what, part, by);
  return whole / part;
}

/// A configuration as its family's checkpoints hold it.
ModelConfig configured(nlohmann::ordered_json config) {
  ModelSource source;
  source.config = std::move(config);
  return resolve_config(source);
}

ModelConfig bert(std::size_t d, std::size_t layers, std::size_t heads) {
  return configured({{"model_type", "bert"},
                     {"hidden_size", d},
                     {"num_hidden_layers", layers},
                     {"num_attention_heads", heads},
                     {"intermediate_size", 4 * d}});
}

ModelConfig gpt2(std::size_t d, std::size_t layers, std::size_t heads, std::size_t positions) {
  return configured({{"model_type", "gpt2"},
                     {"n_embd", d},
                     {"n_layer", layers},
                     {"n_head", heads},
                     {"n_positions", positions}});
}

struct LlamaSizes {
  std::size_t d, layers, heads, kv_heads, mlp, positions;
};

ModelConfig llama(const LlamaSizes& sizes) {
  return configured({{"model_type", "llama"},
                     {"hidden_size", sizes.d},
                     {"num_hidden_layers", sizes.layers},
                     {"num_attention_heads", sizes.heads},
                     {"num_key_value_heads", sizes.kv_heads},
                     {"intermediate_size", sizes.mlp},
                     {"max_position_embeddings", sizes.positions}});
}

/// The encoder's attention of a Transformer; the decoder has twice as many.
Preset transformer(const std::string& size, std::size_t d, std::size_t heads) {
  const std::size_t layers = 6;
  return {.name = "transformer-" + size,
          .aliases = {},
          .title = fmt::format("Transformer {}: the attention of its encoder, without biases", size),
          .config = bare_config({.d_model = d, .heads = heads, .layers = layers}),
          .attentions = 3 * layers};
}

Preset preset(std::string name, std::vector<std::string> aliases, std::string title, ModelConfig config) {
  const std::size_t layers = config.layers.size();
  return {std::move(name), std::move(aliases), std::move(title), std::move(config), layers};
}

std::vector<Preset> make_presets() {
  return {
      transformer("base", 512, 8),
      transformer("big", 1024, 16),
      preset("bert-base", {"bert-base-uncased"}, "BERT base", bert(768, 12, 12)),
      preset("bert-large", {"bert-large-uncased"}, "BERT large", bert(1024, 24, 16)),
      preset("gpt2", {"gpt2-small"}, "GPT-2 small", gpt2(768, 12, 12, 1024)),
      preset("gpt2-medium", {}, "GPT-2 medium", gpt2(1024, 24, 16, 1024)),
      preset("gpt2-large", {}, "GPT-2 large", gpt2(1280, 36, 20, 1024)),
      preset("gpt2-xl", {}, "GPT-2 XL", gpt2(1600, 48, 25, 1024)),
      preset("gpt3", {"gpt3-175b"}, "GPT-3 175B", gpt2(12288, 96, 96, 2048)),
      preset("llama-7b", {}, "LLaMA 7B", llama({4096, 32, 32, 32, 11008, 2048})),
      preset("llama-65b", {}, "LLaMA 65B", llama({8192, 80, 64, 64, 22016, 2048})),
      preset("llama2-70b", {"llama-2-70b"}, "LLaMA-2 70B", llama({8192, 80, 64, 8, 28672, 4096})),
  };
}

}  // namespace

ModelConfig bare_config(const BareSizes& sizes) {
  LayerConfig layer;
  AttentionConfig& attention = layer.attention;
  attention.heads = sizes.heads;
  attention.kv_heads = sizes.kv_heads.value_or(sizes.heads);
  (void)divided("heads", attention.heads, "key/value heads", attention.kv_heads);
  attention.d_head = sizes.d_head ? *sizes.d_head : divided("d", sizes.d_model, "heads", sizes.heads);
  attention.d_value = sizes.d_value.value_or(attention.d_head);
  if (sizes.d_model == 0 || sizes.layers == 0 || attention.d_head == 0 || attention.d_value == 0) {
    fail(Status::usage, "got a size of 0, need at least 1");
  }
  if (sizes.layers > most_layers || attention.d_head > widest_head) {
    fail(Status::limit, "got {} layers with heads of {}, the limits are {} and {}", sizes.layers,
         attention.d_head, most_layers, widest_head);
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
  for (const Preset& preset : presets()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", preset.name);
    if (!preset.aliases.empty()) names += fmt::format(" ({})", fmt::join(preset.aliases, ", "));
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

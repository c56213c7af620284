#include "model/binding/binding.hpp"

#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "model/binding/binder.hpp"

namespace attnctl {
namespace {

/// What binding a model works on.
struct Bind {
  const FamilySpec& family;
  const ModelConfig& config;
  TensorBinder& binder;

  [[nodiscard]] const LayerSpec& spec_of(const LayerConfig& layer) const {
    if (layer.component == Component::decoder) return family.decoder->self;
    if (layer.component == Component::cross) return family.decoder->cross;
    return family.stack.layer;
  }
};

BoundNorm head_norm(const Bind& at, const NormSpec& spec, const AttentionConfig& attention,
                    std::size_t heads) {
  const NormKind kind = attention.head_norm.kind;
  switch (attention.head_norm_span) {
    case HeadNormSpan::shared:
      return at.binder.norm(spec, kind, attention.d_head);
    case HeadNormSpan::each:
      return at.binder.norm(spec, kind, attention.d_head, heads);
    case HeadNormSpan::whole:
      break;
  }
  return at.binder.norm(spec, kind, heads * attention.d_head);
}

void bind_distances(const Bind& at, const AttentionConfig& attention, BoundLayer& bound) {
  if (!attention.disentangled) return;
  const DisentangledSpec& spec = at.family.stack.disentangled.value();
  const DisentangledConfig& distances = *attention.disentangled;
  const ProjectionOutputs outputs = outputs_alone(attention.heads * attention.d_head);
  bound.distance_key = at.binder.linear(spec.key, distances.key, at.config.d_model, outputs);
  bound.distance_query = at.binder.linear(spec.query, distances.query, at.config.d_model, outputs);
  if (distances.content_to_position && !distances.key.weight) bound.distance_key = bound.key;
  if (distances.position_to_content && !distances.query.weight) bound.distance_query = bound.query;
}

void bind_attention(const Bind& at, const LayerConfig& layer, BoundLayer& bound) {
  const auto& [family, config, binder] = at;
  const AttentionConfig& attention = layer.attention;
  const LayerSpec& spec = at.spec_of(layer);
  const auto outputs = [&](std::size_t heads, std::size_t each, PackedPart part) {
    return ProjectionOutputs{heads, each, part, &attention};
  };
  binder.heads = attention.heads;
  binder.because = fmt::format("width {}, {} heads, {} key/value heads, head dimension {}", config.d_model,
                               attention.heads, attention.kv_heads, attention.d_head);
  bound.query = binder.linear(spec.query, attention.query, config.d_model,
                              outputs(attention.query_slices(), attention.d_head, PackedPart::query));
  bound.key = binder.linear(spec.key, attention.key, config.d_key_input,
                            outputs(attention.kv_heads, attention.d_head, PackedPart::key));
  if (!attention.key.weight) {
    bound.key.weight = bound.query.weight;
    bound.key.first = bound.query.first;
  }
  bound.value = binder.linear(spec.value, attention.value, config.d_value_input,
                              outputs(attention.kv_heads, attention.d_value, PackedPart::value));
  bound.output = binder.linear(spec.output, attention.output, attention.heads * attention.d_value,
                               outputs_alone(config.d_output), true);
  bound.query_norm = head_norm(at, spec.query_norm, attention, attention.heads);
  bound.key_norm = head_norm(at, spec.key_norm, attention, attention.kv_heads);
  bind_distances(at, attention, bound);
  if (attention.sinks) bound.sinks = binder.vector(stored(spec.sinks), attention.heads);
}

void bind_norms(const Bind& at, const LayerConfig& layer, BoundLayer& bound) {
  if (layer.place == NormPlace::none) return;
  const LayerSpec& spec = at.spec_of(layer);
  const auto norm = [&](const NormSpec& of) {
    return at.binder.norm(of, layer.norm.kind, at.config.d_model);
  };
  if (layer.attention_normed) bound.attention_norm = norm(spec.attention_norm);
  if (layer.mlp.width > 0) bound.mlp_norm = norm(spec.mlp_norm);
  if (layer.place != NormPlace::both) return;
  bound.attention_output_norm = norm(spec.attention_output_norm);
  bound.mlp_output_norm = norm(spec.mlp_output_norm);
}

ProjectionOutputs inner(std::size_t width, PackedPart part) {
  return {.heads = 1, .each = width, .part = part};
}

void bind_mlp(const Bind& at, const LayerConfig& layer, BoundLayer& bound) {
  const auto& [family, config, binder] = at;
  const LayerSpec& spec = at.spec_of(layer);
  const MlpConfig& mlp = layer.mlp;
  const LinearParts parts = {true, mlp.bias};
  binder.because = fmt::format("width {}, MLP width {}", config.d_model, mlp.width);
  bound.mlp.up = binder.linear(spec.up, parts, config.d_model, inner(mlp.width, PackedPart::up));
  if (mlp.gated)
    bound.mlp.gate = binder.linear(spec.gate, parts, config.d_model, inner(mlp.width, PackedPart::gate));
  bound.mlp.down = binder.linear(spec.down, parts, mlp.width, outputs_alone(config.d_model));
}

void bind_experts(const Bind& at, const LayerConfig& layer, BoundLayer& bound) {
  const auto& [family, config, binder] = at;
  const ExpertsSpec& spec = family.stack.layer.experts.value();
  const ExpertsConfig& experts = layer.experts;
  const LinearParts parts = {true, layer.mlp.bias};
  binder.because =
      fmt::format("width {}, {} experts of width {}", config.d_model, experts.count, layer.mlp.width);
  bound.router =
      binder.linear(spec.router, {true, experts.router_bias}, config.d_model, outputs_alone(experts.count));
  const auto each = [&](const LinearSpec& of, std::size_t in, const ProjectionOutputs& out) {
    return at.binder.expert_linears(of, parts, in, out, experts.count);
  };
  const auto up = each(spec.up, config.d_model, inner(layer.mlp.width, PackedPart::up));
  const auto gate = each(spec.gate, config.d_model, inner(layer.mlp.width, PackedPart::gate));
  const auto down = each(spec.down, layer.mlp.width, outputs_alone(config.d_model));
  for (std::size_t e = 0; e < experts.count; ++e) bound.experts.push_back({up[e], gate[e], down[e]});
  if (experts.shared_width == 0) return;
  binder.because = fmt::format("width {}, shared expert of width {}", config.d_model, experts.shared_width);
  bound.shared.up = binder.linear(spec.shared_up, parts, config.d_model, outputs_alone(experts.shared_width));
  bound.shared.gate =
      binder.linear(spec.shared_gate, parts, config.d_model, outputs_alone(experts.shared_width));
  bound.shared.down =
      binder.linear(spec.shared_down, parts, experts.shared_width, outputs_alone(config.d_model));
  bound.shared_factor = binder.linear(spec.shared_factor, {true, false}, config.d_model, outputs_alone(1));
}

/// What all layers of the stack share.
BoundLayer bind_shared(const Bind& at, const LayerConfig& layer) {
  const auto& [family, config, binder] = at;
  const AttentionConfig& attention = layer.attention;
  BoundLayer shared;
  binder.scope = {};
  if (attention.relative_buckets) {
    const std::size_t rows = attention.relative_buckets->rows;
    binder.because = fmt::format("{} buckets of distances, {} heads", rows, attention.heads);
    const auto& spec =
        layer.component == Component::decoder ? family.decoder->relative : family.stack.relative;
    shared.relative_bias = binder.rows(spec->table, rows, attention.heads);
  }
  if (attention.disentangled) {
    const DisentangledSpec& spec = family.stack.disentangled.value();
    const std::size_t rows = 2 * attention.disentangled->span;
    binder.because = fmt::format("{} rows of distances, width {}", rows, config.d_model);
    shared.distance_table = binder.rows(spec.table, rows, config.d_model);
    shared.distance_norm = binder.norm(spec.norm, attention.disentangled->norm.kind, config.d_model);
  }
  return shared;
}

void bind_convolution(const Bind& at, const LayerConfig& layer, BoundLayer& bound) {
  if (!layer.convolution) return;
  const auto& [family, config, binder] = at;
  const ConvolutionSpec& spec = family.stack.convolution.value();
  const auto& [kernel, groups, activation] = *layer.convolution;
  binder.scope = {};
  binder.because = fmt::format("width {}, a kernel of {} in {} groups", config.d_model, kernel, groups);
  bound.convolution = binder.kernel(spec.kernel, config.d_model / groups, kernel, config.d_model);
  bound.convolution_norm = binder.norm(spec.norm, layer.norm.kind, config.d_model);
}

void bind_layer(const Bind& at, const LayerConfig& layer, const BoundLayer& shared) {
  BoundLayer bound = shared;
  bind_convolution(at, layer, bound);
  at.binder.scope = {NameScope::Place::layer, layer.stored()};
  bind_attention(at, layer, bound);
  bind_norms(at, layer, bound);
  if (layer.experts.count > 0) {
    bind_experts(at, layer, bound);
  } else if (layer.mlp.width > 0) {
    bind_mlp(at, layer, bound);
  }
  at.binder.bound().layers.emplace(layer.stored(), std::move(bound));
}

void bind_layers(const Bind& at) {
  std::map<Component, BoundLayer> shared;
  for (const LayerConfig& layer : at.config.layers) {
    if (at.binder.bound().layers.contains(layer.stored())) continue;
    const auto [of_stack, is_new] = shared.try_emplace(layer.component);
    if (is_new) of_stack->second = bind_shared(at, layer);
    bind_layer(at, layer, of_stack->second);
  }
}

BoundEmbedding bind_embedding(const Bind& at, const EmbeddingSpec& spec, const EmbeddingConfig& embedding) {
  const auto& [family, config, binder] = at;
  BoundEmbedding bound;
  binder.scope = {};
  if (embedding.vocabulary > 0) {
    binder.because = fmt::format("vocabulary of {}", embedding.vocabulary);
    bound.token = binder.table(spec.token, embedding.vocabulary, embedding.width);
  }
  if (embedding.position == PositionKind::learned) {
    const std::size_t rows = config.max_positions.value() + embedding.position_offset;
    binder.because = embedding.pixels.present() ? fmt::format("{} patches", embedding.pixels.patches())
                                                : fmt::format("{} positions", *config.max_positions);
    bound.position =
        binder.table(spec.position, rows, embedding.positions_last ? config.d_model : embedding.width);
  }
  if (embedding.pixels.present()) {
    const PatchGrid& grid = embedding.pixels;
    binder.because = fmt::format("embedding width {}, {} channels in patches of {} by {}", embedding.width,
                                 grid.channels, grid.patch_height, grid.patch_width);
    bound.class_token = binder.table(spec.class_token, 1, embedding.width);
    bound.patches = binder.convolution(spec.patches, grid, embedding.width);
  }
  if (embedding.token_types > 0) {
    binder.because = fmt::format("{} token types", embedding.token_types);
    bound.token_type = binder.table(spec.token_type, embedding.token_types, embedding.width);
  }
  binder.because = fmt::format("embedding width {}, model width {}", embedding.width, config.d_model);
  bound.norm = binder.norm(spec.norm, embedding.norm.kind,
                           embedding.projected_first ? config.d_model : embedding.width);
  bound.projection =
      binder.linear(spec.projection, embedding.projection, embedding.width, outputs_alone(config.d_model));
  return bound;
}

/// The ends of the stacks, and what a decoder that reads an encoder embeds its target with.
void bind_ends(const Bind& at) {
  const auto& [family, config, binder] = at;
  Binding& bound = binder.bound();
  bound.embedding = bind_embedding(at, family.embedding, config.embedding);
  if (config.decoder)
    bound.target_embedding = bind_embedding(at, family.decoder->embedding, config.decoder->embedding);
  binder.scope = {};
  binder.because = fmt::format("width {}", config.d_model);
  if (config.decoder)
    bound.encoder_norm = binder.norm(family.final_norm, config.decoder->encoder_norm.kind, config.d_model);
  bound.final_norm = binder.norm(config.decoder ? family.decoder->final_norm : family.final_norm,
                                 config.final_norm.kind, config.d_model);
}

void bind_head(const Bind& at) {
  const auto& [family, config, binder] = at;
  const HeadSpec& spec = *family.head;
  const HeadConfig& head = config.head;
  const EmbeddingConfig& embedding = config.output_embedding();
  Binding& bound = binder.bound();
  const std::size_t token = config.decoder ? bound.target_embedding.token : bound.embedding.token;
  const bool narrow = head.transform || head.tied || head.projection.weight;
  const std::size_t width = narrow ? embedding.width : config.d_model;
  binder.because = fmt::format("model width {}, embedding width {}, vocabulary of {}", config.d_model,
                               embedding.width, embedding.vocabulary);
  binder.scope = {};
  bound.head_projection =
      binder.linear(spec.projection, head.projection, config.d_model, outputs_alone(width));
  binder.scope.place = NameScope::Place::absolute;
  if (head.transform) {
    bound.head_transform =
        binder.linear(spec.transform, {true, head.transform_bias}, config.d_model, outputs_alone(width));
    bound.head_norm = binder.norm(spec.transform_norm, head.norm.kind, width);
  }
  const std::size_t vocabulary = embedding.vocabulary;
  bound.head_decoder = binder.linear(spec.decoder, {!head.tied, head.bias}, width, outputs_alone(vocabulary));
  if (head.tied) {
    if (const auto copy = binder.find(spec.decoder.weight))
      bound.alternatives.push_back({copy->index, token});
    bound.head_decoder.weight = {
        .tensor = token, .axes = Axes::out_in, .in = width, .outputs = whole(vocabulary)};
  }
}

/// The number that a layer's tensor has in its name; nullopt for other tensors.
std::optional<std::size_t> layer_number(std::string_view name, const std::string& layer_prefix) {
  const std::size_t mark = layer_prefix.find("{}");
  if (mark == std::string::npos) return std::nullopt;
  const std::string_view before = std::string_view(layer_prefix).substr(0, mark);
  const std::string_view after = std::string_view(layer_prefix).substr(mark + 2);
  if (!name.starts_with(before)) return std::nullopt;
  name.remove_prefix(before.size());
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc()) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  return name.starts_with(after) ? std::optional(number) : std::nullopt;
}

/// Layers that the file has and the configuration has not.
void check_extra_layers(const Bind& at, const std::string& layer_prefix, bool of_decoder) {
  std::set<std::size_t> known, extra;
  for (const LayerConfig& layer : at.config.layers) {
    const bool in_decoder = layer.component == Component::decoder || layer.component == Component::cross;
    if (in_decoder == of_decoder) known.insert(layer.stored_as);
  }
  const auto tensors = at.binder.names().weights().tensors();
  std::string_view file;
  for (const TensorInfo& tensor : tensors) {
    const auto number = layer_number(tensor.name, layer_prefix);
    if (!number || known.contains(*number) || is_known_buffer(tensor.name)) continue;
    extra.insert(*number);
    file = tensor.file;
  }
  if (extra.empty()) return;
  at.binder.faults().wrong(
      fmt::format("{}: layer {}{} is stored, and the configuration has {}", file, *extra.begin(),
                  extra.size() > 1 ? fmt::format(" and {} more", extra.size() - 1) : "", known.size()));
}

}  // namespace

Binding bind_tensors(const FamilySpec& family, const ModelConfig& config, const Checkpoint& weights,
                     const std::string& config_file) {
  TensorBinder binder(family, config, weights, config_file);
  const Bind at = {family, config, binder};
  bind_layers(at);
  bind_ends(at);
  if (config.head.present) bind_head(at);
  check_extra_layers(at, binder.names().layer_prefix(), false);
  if (config.decoder) check_extra_layers(at, binder.names().decoder_prefix(), true);
  const auto tensors = weights.tensors();
  binder.faults().report(tensors.empty() ? std::string_view(config_file) : tensors.front().file, config_file);
  return std::move(binder.bound());
}

}  // namespace attnctl

#include "model/binding/binding.hpp"

#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "model/binding/binder.hpp"

namespace attnctl {
namespace {

const LayerSpec& spec_of(const TensorBinder& binder, const LayerConfig& layer) {
  const FamilySpec& family = binder.family();
  if (layer.component == Component::decoder) return family.decoder->self;
  if (layer.component == Component::cross) return family.decoder->cross;
  return family.stack.layer;
}

BoundNorm head_norm(TensorBinder& binder, const NormSpec& spec, const AttentionConfig& attention,
                    std::size_t heads) {
  const NormKind kind = attention.head_norm.kind;
  switch (attention.head_norm_span) {
    case HeadNormSpan::shared:
      return binder.norm(spec, kind, attention.d_head);
    case HeadNormSpan::each:
      return binder.norm(spec, kind, attention.d_head, heads);
    case HeadNormSpan::whole:
      break;
  }
  return binder.norm(spec, kind, heads * attention.d_head);
}

void bind_distances(TensorBinder& binder, const AttentionConfig& attention, BoundLayer& bound) {
  if (!attention.disentangled) return;
  const DisentangledSpec& spec = binder.family().stack.disentangled.value();
  const DisentangledConfig& distances = *attention.disentangled;
  const std::size_t outputs = attention.heads * attention.d_head;
  bound.distance_key = binder.linear(spec.key, distances.key, binder.config().d_model, outputs);
  bound.distance_query = binder.linear(spec.query, distances.query, binder.config().d_model, outputs);
  if (distances.content_to_position && !distances.key.weight) bound.distance_key = bound.key;
  if (distances.position_to_content && !distances.query.weight) bound.distance_query = bound.query;
}

void bind_attention(TensorBinder& binder, const LayerConfig& layer, BoundLayer& bound) {
  const ModelConfig& config = binder.config();
  const AttentionConfig& attention = layer.attention;
  const LayerSpec& spec = spec_of(binder, layer);
  const auto outputs = [&](std::size_t heads, std::size_t each, PackedPart part) {
    return ProjectionOutputs{heads, each, part, &attention};
  };
  binder.heads = attention.heads;
  binder.shape_origin = fmt::format("width {}, {} heads, {} key/value heads, head dimension {}",
                                    config.d_model, attention.heads, attention.kv_heads, attention.d_head);
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
                               config.d_output, true);
  bound.query_norm = head_norm(binder, spec.query_norm, attention, attention.heads);
  bound.key_norm = head_norm(binder, spec.key_norm, attention, attention.kv_heads);
  bind_distances(binder, attention, bound);
  if (attention.sinks) bound.sinks = binder.vector(stored(spec.sinks), attention.heads);
}

void bind_norms(TensorBinder& binder, const LayerConfig& layer, BoundLayer& bound) {
  if (layer.place == NormPlace::none) return;
  const LayerSpec& spec = spec_of(binder, layer);
  const auto norm = [&](const NormSpec& of) {
    return binder.norm(of, layer.norm.kind, binder.config().d_model);
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

void bind_mlp(TensorBinder& binder, const LayerConfig& layer, BoundLayer& bound) {
  const ModelConfig& config = binder.config();
  const LayerSpec& spec = spec_of(binder, layer);
  const MlpConfig& mlp = layer.mlp;
  const LinearParts parts = {true, mlp.bias};
  binder.shape_origin = fmt::format("width {}, MLP width {}", config.d_model, mlp.width);
  bound.mlp.up = binder.linear(spec.up, parts, config.d_model, inner(mlp.width, PackedPart::up));
  if (mlp.gated)
    bound.mlp.gate = binder.linear(spec.gate, parts, config.d_model, inner(mlp.width, PackedPart::gate));
  bound.mlp.down = binder.linear(spec.down, parts, mlp.width, config.d_model);
}

void bind_experts(TensorBinder& binder, const LayerConfig& layer, BoundLayer& bound) {
  const ModelConfig& config = binder.config();
  const ExpertsSpec& spec = binder.family().stack.layer.experts.value();
  const ExpertsConfig& experts = layer.experts;
  const LinearParts parts = {true, layer.mlp.bias};
  binder.shape_origin =
      fmt::format("width {}, {} experts of width {}", config.d_model, experts.count, layer.mlp.width);
  bound.router = binder.linear(spec.router, {true, experts.router_bias}, config.d_model, experts.count);
  const auto each = [&](const LinearSpec& of, std::size_t in, const ProjectionOutputs& out) {
    return binder.expert_linears(of, parts, in, out, experts.count);
  };
  const auto up = each(spec.up, config.d_model, inner(layer.mlp.width, PackedPart::up));
  const auto gate = each(spec.gate, config.d_model, inner(layer.mlp.width, PackedPart::gate));
  const auto down = each(spec.down, layer.mlp.width, inner(config.d_model, PackedPart::other));
  for (std::size_t e = 0; e < experts.count; ++e) bound.experts.push_back({up[e], gate[e], down[e]});
  if (experts.shared_width == 0) return;
  binder.shape_origin =
      fmt::format("width {}, shared expert of width {}", config.d_model, experts.shared_width);
  bound.shared.up = binder.linear(spec.shared_up, parts, config.d_model, experts.shared_width);
  bound.shared.gate = binder.linear(spec.shared_gate, parts, config.d_model, experts.shared_width);
  bound.shared.down = binder.linear(spec.shared_down, parts, experts.shared_width, config.d_model);
  bound.shared_factor = binder.linear(spec.shared_factor, {true, false}, config.d_model, 1);
}

/// Binds the tables that all layers of a stack share.
BoundLayer bind_stack_tables(TensorBinder& binder, const LayerConfig& layer) {
  const ModelConfig& config = binder.config();
  const AttentionConfig& attention = layer.attention;
  BoundLayer shared;
  binder.scope = {};
  if (attention.relative_buckets) {
    const std::size_t rows = attention.relative_buckets->rows;
    binder.shape_origin = fmt::format("{} buckets of distances, {} heads", rows, attention.heads);
    const auto& spec = layer.component == Component::decoder ? binder.family().decoder->relative
                                                             : binder.family().stack.relative;
    shared.relative_bias = binder.rows(spec->table, rows, attention.heads);
  }
  if (attention.disentangled) {
    const DisentangledSpec& spec = binder.family().stack.disentangled.value();
    const std::size_t rows = 2 * attention.disentangled->span;
    binder.shape_origin = fmt::format("{} rows of distances, width {}", rows, config.d_model);
    shared.distance_table = binder.rows(spec.table, rows, config.d_model);
    shared.distance_norm = binder.norm(spec.norm, attention.disentangled->norm.kind, config.d_model);
  }
  return shared;
}

void bind_convolution(TensorBinder& binder, const LayerConfig& layer, BoundLayer& bound) {
  if (!layer.convolution) return;
  const ModelConfig& config = binder.config();
  const ConvolutionSpec& spec = binder.family().stack.convolution.value();
  const auto& [kernel, groups, activation] = *layer.convolution;
  binder.scope = {};
  binder.shape_origin = fmt::format("width {}, a kernel of {} in {} groups", config.d_model, kernel, groups);
  bound.convolution = binder.convolution(spec.kernel, {config.d_model, config.d_model / groups, kernel});
  bound.convolution_norm = binder.norm(spec.norm, layer.norm.kind, config.d_model);
}

void bind_layer(TensorBinder& binder, const LayerConfig& layer, const BoundLayer& shared) {
  BoundLayer bound = shared;
  bind_convolution(binder, layer, bound);
  binder.scope = {NameScope::Place::layer, layer.stored()};
  bind_attention(binder, layer, bound);
  bind_norms(binder, layer, bound);
  if (layer.experts.count > 0) {
    bind_experts(binder, layer, bound);
  } else if (layer.mlp.width > 0) {
    bind_mlp(binder, layer, bound);
  }
  binder.bound().layers.emplace(layer.stored(), std::move(bound));
}

void bind_layers(TensorBinder& binder) {
  std::map<Component, BoundLayer> stacks;
  for (const LayerConfig& layer : binder.config().layers) {
    if (binder.bound().layers.contains(layer.stored())) continue;
    const auto [tables, is_new] = stacks.try_emplace(layer.component);
    if (is_new) tables->second = bind_stack_tables(binder, layer);
    bind_layer(binder, layer, tables->second);
  }
}

BoundEmbedding bind_embedding(TensorBinder& binder, const EmbeddingSpec& spec,
                              const EmbeddingConfig& embedding) {
  const ModelConfig& config = binder.config();
  BoundEmbedding bound;
  binder.scope = {};
  if (embedding.vocabulary > 0) {
    binder.shape_origin = fmt::format("vocabulary of {}", embedding.vocabulary);
    bound.token = binder.table(spec.token, embedding.vocabulary, embedding.width);
  }
  if (embedding.position == PositionKind::learned) {
    const std::size_t rows = config.max_positions.value() + embedding.position_offset;
    binder.shape_origin = embedding.pixels.present() ? fmt::format("{} patches", embedding.pixels.patches())
                                                     : fmt::format("{} positions", *config.max_positions);
    bound.position =
        binder.table(spec.position, rows, embedding.positions_last ? config.d_model : embedding.width);
  }
  if (embedding.pixels.present()) {
    const PatchGrid& grid = embedding.pixels;
    binder.shape_origin = fmt::format("embedding width {}, {} channels in patches of {} by {}",
                                      embedding.width, grid.channels, grid.patch_height, grid.patch_width);
    bound.class_token = binder.table(spec.class_token, 1, embedding.width);
    bound.patches = binder.convolution(spec.patches,
                                       {embedding.width, grid.channels, grid.patch_height, grid.patch_width});
  }
  if (embedding.token_types > 0) {
    binder.shape_origin = fmt::format("{} token types", embedding.token_types);
    bound.token_type = binder.table(spec.token_type, embedding.token_types, embedding.width);
  }
  binder.shape_origin = fmt::format("embedding width {}, model width {}", embedding.width, config.d_model);
  bound.norm = binder.norm(spec.norm, embedding.norm.kind,
                           embedding.projected_first ? config.d_model : embedding.width);
  bound.projection = binder.linear(spec.projection, embedding.projection, embedding.width, config.d_model);
  return bound;
}

/// Binds the embeddings and the final norms.
void bind_ends(TensorBinder& binder) {
  const ModelConfig& config = binder.config();
  Binding& bound = binder.bound();
  const FamilySpec& family = binder.family();
  bound.embedding = bind_embedding(binder, family.embedding, config.embedding);
  if (config.decoder)
    bound.target_embedding = bind_embedding(binder, family.decoder->embedding, config.decoder->embedding);
  binder.scope = {};
  binder.shape_origin = fmt::format("width {}", config.d_model);
  const auto norm = [&](const NormSpec& spec, const NormConfig& of) {
    return binder.norm(spec, of.kind, config.d_model);
  };
  if (config.decoder) bound.encoder_norm = norm(family.final_norm, config.decoder->encoder_norm);
  bound.final_norm = norm(config.decoder ? family.decoder->final_norm : family.final_norm, config.final_norm);
}

void bind_head(TensorBinder& binder) {
  const ModelConfig& config = binder.config();
  const HeadSpec& spec = *binder.family().head;
  const HeadConfig& head = config.head;
  const EmbeddingConfig& embedding = config.output_embedding();
  Binding& bound = binder.bound();
  const std::size_t token = config.decoder ? bound.target_embedding.token : bound.embedding.token;
  const bool narrow = head.transform || head.tied || head.projection.weight;
  const std::size_t width = narrow ? embedding.width : config.d_model;
  binder.shape_origin = fmt::format("model width {}, embedding width {}, vocabulary of {}", config.d_model,
                                    embedding.width, embedding.vocabulary);
  binder.scope = {};
  bound.head_projection = binder.linear(spec.projection, head.projection, config.d_model, width);
  binder.scope.place = NameScope::Place::absolute;
  if (head.transform) {
    bound.head_transform = binder.linear(spec.transform, {true, head.transform_bias}, config.d_model, width);
    bound.head_norm = binder.norm(spec.transform_norm, head.norm.kind, width);
  }
  const std::size_t vocabulary = embedding.vocabulary;
  bound.head_decoder = binder.linear(spec.decoder, {!head.tied, head.bias}, width, vocabulary);
  if (head.tied) {
    if (const auto copy = binder.find(spec.decoder.weight))
      bound.alternatives.push_back({copy->index, token});
    bound.head_decoder.weight = {
        .tensor = token, .axes = Axes::out_in, .in = width, .outputs = Slices::whole(vocabulary)};
  }
}

/// Returns the layer number in a tensor's name; nullopt for tensors outside of layers.
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

/// Adds a fault if the file holds layers that the configuration does not have.
void check_extra_layers(TensorBinder& binder, const std::string& layer_prefix, bool of_decoder) {
  std::set<std::size_t> known, extra;
  for (const LayerConfig& layer : binder.config().layers) {
    const bool in_decoder = layer.component == Component::decoder || layer.component == Component::cross;
    if (in_decoder == of_decoder) known.insert(layer.stored_as);
  }
  const auto tensors = binder.names().weights().tensors();
  std::string_view file;
  for (const TensorInfo& tensor : tensors) {
    const auto number = layer_number(tensor.name, layer_prefix);
    if (!number || known.contains(*number) || is_known_buffer(tensor.name)) continue;
    extra.insert(*number);
    file = tensor.file;
  }
  if (extra.empty()) return;
  binder.faults().add(
      fmt::format("{}: layer {}{} is stored, but the configuration has {} layers", file, *extra.begin(),
                  extra.size() > 1 ? fmt::format(" and {} more", extra.size() - 1) : "", known.size()));
}

}  // namespace

Binding bind_tensors(const FamilySpec& family, const ModelConfig& config, const Checkpoint& weights,
                     const std::string& config_file) {
  TensorBinder binder(family, config, weights, config_file);
  bind_layers(binder);
  bind_ends(binder);
  if (config.head.present) bind_head(binder);
  check_extra_layers(binder, binder.names().layer_prefix(), false);
  if (config.decoder) check_extra_layers(binder, binder.names().decoder_prefix(), true);
  const auto tensors = weights.tensors();
  binder.faults().report(tensors.empty() ? std::string_view(config_file) : tensors.front().file, config_file);
  return std::move(binder.bound());
}

}  // namespace attnctl

#include "model/accounting/accounting.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "model/accounting/counts.hpp"
#include "model/config/position_count.hpp"

namespace attnctl {

using counts::add;
using counts::entries;
using counts::head_width;
using counts::linear;
using counts::mlp_matrices;
using counts::product;
using counts::sum_of;
using counts::too_large;

namespace {

std::uint64_t norm(const NormConfig& config, std::uint64_t width) {
  if (config.kind == NormKind::none) return 0;
  return (config.gain ? width : 0) + (config.bias ? width : 0);
}

/// Of queries and keys.
std::uint64_t head_norms(const AttentionConfig& attention) {
  const std::uint64_t d = attention.d_head;
  const std::uint64_t heads = sum_of({attention.heads, attention.kv_heads});
  return attention.head_norm_span == HeadNormSpan::shared ? 2 * norm(attention.head_norm, d)
                                                          : norm(attention.head_norm, product({heads, d}));
}

/// Of the layer's branches.
std::uint64_t branch_norms(const LayerConfig& layer) {
  if (layer.place == NormPlace::none) return 0;
  if (layer.place == NormPlace::both) return 4;
  const std::uint64_t own = layer.attention_normed ? 1 : 0;
  return layer.shared_norm || layer.mlp.width == 0 ? own : own + 1;
}

/// The layer's own count; `biases` of its attention and `mlp`, `norms` apart.
struct LayerCount {
  ParameterCount::Layer layer;
  std::uint64_t biases = 0;
  std::uint64_t mlp = 0;
  std::uint64_t norms = 0;
};

LayerCount count_layer(const ModelConfig& config, const LayerConfig& layer) {
  const AttentionConfig& attention = layer.attention;
  const std::uint64_t d = config.d_model;
  const std::uint64_t queries = product({attention.query_slices(), attention.d_head});
  const std::uint64_t keys = product({attention.kv_heads, attention.d_head});
  const std::uint64_t values = product({attention.kv_heads, attention.d_value});
  const std::uint64_t concatenated = product({attention.heads, attention.d_value});
  LayerCount count;
  count.layer.query = linear(attention.query, d, queries);
  count.layer.key = linear(attention.key, config.d_key_input, keys);
  count.layer.value = linear(attention.value, config.d_value_input, values);
  count.layer.output = linear(attention.output, concatenated, config.d_output);
  count.layer.attention = sum_of({count.layer.query, count.layer.key, count.layer.value, count.layer.output});
  count.biases = sum_of({attention.query.bias ? queries : 0, attention.key.bias ? keys : 0,
                         attention.value.bias ? values : 0, attention.output.bias ? config.d_output : 0});
  if (layer.mlp.width > 0) {
    const std::uint64_t inner = product({mlp_matrices(layer.mlp) - 1, layer.mlp.width});
    count.mlp =
        sum_of({product({mlp_matrices(layer.mlp), d, layer.mlp.width}), layer.mlp.bias ? inner + d : 0});
  }
  if (const ExpertsConfig& experts = layer.experts; experts.count > 0) {
    const std::uint64_t shared = experts.shared_width == 0 ? 0 : product({3, d, experts.shared_width}) + d;
    count.mlp = sum_of(
        {product({experts.count, count.mlp}), linear({true, experts.router_bias}, d, experts.count), shared});
  }
  count.norms = product({branch_norms(layer), norm(layer.norm, d)});
  add(count.norms, head_norms(attention));
  if (attention.sinks) add(count.layer.attention, attention.heads);
  const DistanceProjections distances = count_distance_projections(config, attention);
  add(count.layer.attention, distances.all);
  add(count.biases, distances.biases);
  count.layer.all = sum_of({count.layer.attention, count.mlp, count.norms});
  return count;
}

std::uint64_t count_embedding(const EmbeddingConfig& embedding, const ModelConfig& config) {
  const std::uint64_t positions =
      embedding.position == PositionKind::learned ? *config.max_positions + embedding.position_offset : 0;
  const std::uint64_t position_width = embedding.positions_last ? config.d_model : embedding.width;
  const PatchGrid& grid = embedding.pixels;
  return sum_of({product({sum_of({embedding.vocabulary, embedding.token_types}), embedding.width}),
                 product({positions, position_width}),
                 linear(embedding.projection, embedding.width, config.d_model),
                 grid.present() ? embedding.width : 0,  // the class token
                 grid.present() ? linear({true, true}, grid.patch_size(), embedding.width) : 0});
}

std::uint64_t count_embeddings(const ModelConfig& config) {
  std::uint64_t count = count_embedding(config.embedding, config);
  if (!config.decoder) return count;
  EmbeddingConfig target = config.decoder->embedding;
  if (config.decoder->shares_tokens) target.vocabulary = 0;
  add(count, count_embedding(target, config));
  return count;
}

std::uint64_t count_head(const ModelConfig& config) {
  if (!config.head.present) return 0;
  const std::uint64_t width = head_width(config);
  std::uint64_t count = linear(config.head.projection, config.d_model, width);
  count += linear({!config.head.tied, config.head.bias}, width, config.output_embedding().vocabulary);
  if (config.head.transform) {
    add(count, linear({true, config.head.transform_bias}, config.d_model, width));
    add(count, norm(config.head.norm, width));
  }
  return count;
}

std::string extents(const std::vector<std::uint64_t>& shape) {
  return to_string(Shape(shape.begin(), shape.end()));
}

}  // namespace

ParameterCount count_parameters(const ModelConfig& config) {
  ParameterCount count;
  std::set<LayerConfig::Key> counted;
  for (const LayerConfig& layer : config.layers) {
    const LayerCount one = count_layer(config, layer);
    count.layers.push_back(one.layer);
    if (!counted.insert(layer.stored()).second) continue;
    add(count.attention, one.layer.attention);
    add(count.attention_weights, one.layer.attention - one.biases);
    add(count.mlp, one.mlp);
    add(count.norms, one.norms);
  }
  const PositionParameters positions = count_position_parameters(config);
  add(count.attention, positions.tables);
  add(count.attention_weights, positions.tables);
  add(count.norms, sum_of({positions.table_norms, positions.convolution_norms}));
  add(count.norms, norm(config.embedding.norm,
                        config.embedding.projected_first ? config.d_model : config.embedding.width));
  add(count.norms, norm(config.final_norm, config.d_model));
  if (config.decoder) {
    const EmbeddingConfig& target = config.decoder->embedding;
    add(count.norms, norm(target.norm, target.width));
    add(count.norms, norm(config.decoder->encoder_norm, config.d_model));
  }
  count.embedding = sum_of({count_embeddings(config), positions.convolution});
  count.head = count_head(config);
  count.all = sum_of({count.attention, count.mlp, count.norms, count.embedding, count.head});
  return count;
}

Table shape_walk(const ModelConfig& config, std::size_t batch, std::size_t length) {
  const AttentionConfig& attention = config.layers.at(0).attention;
  const std::uint64_t B = batch;
  const std::uint64_t n = length;
  const std::uint64_t h = attention.heads;
  const std::uint64_t s = attention.query_slices();
  const std::uint64_t g = attention.kv_heads;
  const std::uint64_t k = attention.d_head;
  const std::uint64_t v = attention.d_value;
  std::vector<std::vector<Cell>> rows;
  const auto step = [&](std::string name, std::string tensor, const std::vector<std::uint64_t>& shape) {
    std::uint64_t values = 1;
    for (const std::uint64_t extent : shape) values = product({values, extent});
    const auto shown = checked_narrow<std::int64_t>(values);
    if (!shown) too_large();
    rows.push_back({std::move(name), std::move(tensor), extents(shape), *shown});
  };
  step("input", "x", {B, n, config.d_model});
  const auto project = [&](const std::string& tensor, LinearParts parts, std::uint64_t out) {
    if (parts.rank > 0) step("project", tensor + "_a", {B, n, parts.rank});
    step("project", tensor + (parts.rank > 0 ? "_a " + tensor.substr(2) + "_b" : ""), {B, n, out});
  };
  project("x W_Q", attention.query, product({s, k}));
  project("x W_K", attention.key, product({g, k}));
  if (attention.value.weight) project("x W_V", attention.value, product({g, v}));
  step("split", "q", {B, n, s, k});
  step("transpose", "q", {B, s, n, k});
  step("split and transpose", "k", {B, g, n, k});
  if (attention.value.weight) step("split and transpose", "v", {B, g, n, v});
  step("q k^T", "scores", {B, h, n, n});
  step("softmax", "pattern", {B, h, n, n});
  if (attention.value.weight) {
    step("pattern v", "z", {B, h, n, v});
    step("concatenate", "z", {B, n, product({h, v})});
    if (attention.output.rank > 0) step("z W_O_a", "z W_O_a", {B, n, attention.output.rank});
    if (attention.output.weight) {
      step(attention.output.rank > 0 ? "z W_O_a W_O_b" : "z W_O", "output", {B, n, config.d_output});
    }
  }
  return make_table("shapes", {"step", "tensor", "shape", "values"}, std::move(rows));
}

}  // namespace attnctl

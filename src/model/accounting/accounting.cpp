#include "model/accounting/accounting.hpp"

#include <map>
#include <set>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "model/accounting/counts.hpp"

namespace attnctl {
namespace counts {
namespace {

[[noreturn]] void reject_size() {
  fail(Status::limit, "these sizes make counts over 64 bits; need smaller ones");
}

}  // namespace

std::uint64_t product(std::initializer_list<std::uint64_t> factors) {
  std::uint64_t result = 1;
  for (const std::uint64_t factor : factors) {
    const auto next = checked_mul(result, factor);
    if (!next) reject_size();
    result = *next;
  }
  return result;
}

void add(std::uint64_t& total, std::uint64_t count) {
  const auto next = checked_add(total, count);
  if (!next) reject_size();
  total = *next;
}

std::uint64_t sum(std::initializer_list<std::uint64_t> counts) {
  std::uint64_t total = 0;
  for (const std::uint64_t count : counts) add(total, count);
  return total;
}

Cell cell(std::uint64_t count) {
  const auto value = checked_narrow<std::int64_t>(count);
  if (!value) reject_size();
  return *value;
}

std::uint64_t entries(LinearParts parts, std::uint64_t in, std::uint64_t out) {
  return parts.rank > 0 ? product({sum({in, out}), parts.rank}) : product({in, out});
}

std::uint64_t mlp_matrices(const MlpConfig& mlp) {
  if (mlp.width == 0) return 0;
  return mlp.gated ? 3 : 2;
}

std::uint64_t head_width(const ModelConfig& config) {
  const bool narrow = config.head.transform || config.head.tied || config.head.projection.weight;
  return narrow ? config.output_embedding().width : config.d_model;
}

}  // namespace counts

using counts::add;
using counts::entries;
using counts::product;
using counts::sum;

namespace {

std::uint64_t linear_parameters(LinearParts parts, std::uint64_t in, std::uint64_t out) {
  return sum({parts.weight ? entries(parts, in, out) : 0, parts.bias ? out : 0});
}

std::uint64_t norm_parameters(const NormConfig& config, std::uint64_t width) {
  if (config.kind == NormKind::none) return 0;
  return (config.gain ? width : 0) + (config.bias ? width : 0);
}

/// Parameters of position tables that stacks of layers share, and of convolutions over the embeddings.
struct PositionParameters {
  std::uint64_t tables = 0, table_norms = 0, convolution = 0, convolution_norms = 0;
};

PositionParameters count_position_parameters(const ModelConfig& config) {
  PositionParameters count;
  const AttentionConfig& attention = config.layers.front().attention;
  std::map<Component, std::uint64_t> bucket_tables;  // one per stack
  for (const LayerConfig& layer : config.layers) {
    const auto& buckets = layer.attention.relative_buckets;
    if (buckets) bucket_tables[layer.component] = product({buckets->rows, layer.attention.heads});
  }
  for (const auto& [component, entries] : bucket_tables) count.tables += entries;
  if (attention.disentangled) {
    count.tables += product({2, attention.disentangled->span, config.d_model});
    count.table_norms = norm_parameters(attention.disentangled->norm, config.d_model);
  }
  for (const LayerConfig& layer : config.layers) {
    if (!layer.convolution) continue;
    const std::uint64_t channels = config.d_model / layer.convolution->groups;
    count.convolution += product({config.d_model, channels, layer.convolution->kernel}) + config.d_model;
    count.convolution_norms += norm_parameters(layer.norm, config.d_model);
  }
  return count;
}

/// Parameters of the projections of disentangled attention's table in one layer; `biases` is part of `all`.
struct DistanceProjections {
  std::uint64_t all = 0, biases = 0;
};

DistanceProjections count_distance_projections(const ModelConfig& config, const AttentionConfig& attention) {
  DistanceProjections count;
  if (!attention.disentangled) return count;
  const std::uint64_t outputs = product({attention.heads, attention.d_head});
  for (const LinearParts& parts : {attention.disentangled->key, attention.disentangled->query}) {
    if (parts.weight) count.all += product({config.d_model, outputs});
    if (parts.bias) count.biases += outputs;
  }
  count.all += count.biases;
  return count;
}

std::uint64_t head_norms(const AttentionConfig& attention) {
  const std::uint64_t d = attention.d_head;
  const std::uint64_t heads = sum({attention.heads, attention.kv_heads});
  return attention.head_norm_span == HeadNormSpan::shared
             ? 2 * norm_parameters(attention.head_norm, d)
             : norm_parameters(attention.head_norm, product({heads, d}));
}

/// Returns the number of norms of the layer's branches.
std::uint64_t branch_norms(const LayerConfig& layer) {
  if (layer.place == NormPlace::none) return 0;
  if (layer.place == NormPlace::both) return 4;
  const std::uint64_t own = layer.attention_normed ? 1 : 0;
  return layer.shared_norm || layer.mlp.width == 0 ? own : own + 1;
}

/// Parameters of one layer. `biases` are those of its attention.
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
  count.layer.query = linear_parameters(attention.query, d, queries);
  count.layer.key = linear_parameters(attention.key, config.d_key_input, keys);
  count.layer.value = linear_parameters(attention.value, config.d_value_input, values);
  count.layer.output = linear_parameters(attention.output, concatenated, config.d_output);
  count.layer.attention = sum({count.layer.query, count.layer.key, count.layer.value, count.layer.output});
  count.biases = sum({attention.query.bias ? queries : 0, attention.key.bias ? keys : 0,
                      attention.value.bias ? values : 0, attention.output.bias ? config.d_output : 0});
  if (layer.mlp.width > 0) {
    const std::uint64_t inner = product({counts::mlp_matrices(layer.mlp) - 1, layer.mlp.width});
    count.mlp =
        sum({product({counts::mlp_matrices(layer.mlp), d, layer.mlp.width}), layer.mlp.bias ? inner + d : 0});
  }
  if (const ExpertsConfig& experts = layer.experts; experts.count > 0) {
    const std::uint64_t shared = experts.shared_width == 0 ? 0 : product({3, d, experts.shared_width}) + d;
    count.mlp = sum({product({experts.count, count.mlp}),
                     linear_parameters({true, experts.router_bias}, d, experts.count), shared});
  }
  count.norms = product({branch_norms(layer), norm_parameters(layer.norm, d)});
  add(count.norms, head_norms(attention));
  if (attention.sinks) add(count.layer.attention, attention.heads);
  const DistanceProjections distances = count_distance_projections(config, attention);
  add(count.layer.attention, distances.all);
  add(count.biases, distances.biases);
  count.layer.all = sum({count.layer.attention, count.mlp, count.norms});
  return count;
}

std::uint64_t count_embedding(const EmbeddingConfig& embedding, const ModelConfig& config) {
  const std::uint64_t positions =
      embedding.position == PositionKind::learned ? *config.max_positions + embedding.position_offset : 0;
  const std::uint64_t position_width = embedding.positions_last ? config.d_model : embedding.width;
  const PatchGrid& grid = embedding.pixels;
  return sum({product({sum({embedding.vocabulary, embedding.token_types}), embedding.width}),
              product({positions, position_width}),
              linear_parameters(embedding.projection, embedding.width, config.d_model),
              grid.present() ? embedding.width : 0,  // the class token
              grid.present() ? linear_parameters({true, true}, grid.patch_size(), embedding.width) : 0});
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
  const std::uint64_t width = counts::head_width(config);
  std::uint64_t count = linear_parameters(config.head.projection, config.d_model, width);
  count +=
      linear_parameters({!config.head.tied, config.head.bias}, width, config.output_embedding().vocabulary);
  if (config.head.transform) {
    add(count, linear_parameters({true, config.head.transform_bias}, config.d_model, width));
    add(count, norm_parameters(config.head.norm, width));
  }
  return count;
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
  add(count.norms, sum({positions.table_norms, positions.convolution_norms}));
  add(count.norms,
      norm_parameters(config.embedding.norm,
                      config.embedding.projected_first ? config.d_model : config.embedding.width));
  add(count.norms, norm_parameters(config.final_norm, config.d_model));
  if (config.decoder) {
    const EmbeddingConfig& target = config.decoder->embedding;
    add(count.norms, norm_parameters(target.norm, target.width));
    add(count.norms, norm_parameters(config.decoder->encoder_norm, config.d_model));
  }
  count.embedding = sum({count_embeddings(config), positions.convolution});
  count.head = count_head(config);
  count.all = sum({count.attention, count.mlp, count.norms, count.embedding, count.head});
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
    rows.push_back({std::move(name), std::move(tensor), to_string(Shape(shape.begin(), shape.end())),
                    counts::cell(values)});
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

#include "model/config/position_count.hpp"

#include <initializer_list>
#include <map>

#include "base/checked.hpp"
#include "base/error.hpp"

namespace attnctl {
namespace {

std::uint64_t product(std::initializer_list<std::uint64_t> factors) {
  std::uint64_t result = 1;
  for (const std::uint64_t factor : factors) {
    const auto next = checked_mul(result, factor);
    if (!next) fail(Status::limit, "these sizes make counts over 64 bits; need smaller ones");
    result = *next;
  }
  return result;
}

std::uint64_t norm(const NormConfig& config, std::uint64_t width) {
  if (config.kind == NormKind::none) return 0;
  return (config.gain ? width : 0) + (config.bias ? width : 0);
}

}  // namespace

PositionParameters count_position_parameters(const ModelConfig& config) {
  PositionParameters count;
  const AttentionConfig& attention = config.layers.front().attention;
  std::map<Component, std::uint64_t> bucket_tables;  // one of each stack that has one
  for (const LayerConfig& layer : config.layers) {
    const auto& buckets = layer.attention.relative_buckets;
    if (buckets) bucket_tables[layer.component] = product({buckets->rows, layer.attention.heads});
  }
  for (const auto& [component, entries] : bucket_tables) count.tables += entries;
  if (attention.disentangled) {
    count.tables += product({2, attention.disentangled->span, config.d_model});
    count.table_norms = norm(attention.disentangled->norm, config.d_model);
  }
  for (const LayerConfig& layer : config.layers) {
    if (!layer.convolution) continue;
    const std::uint64_t channels = config.d_model / layer.convolution->groups;
    count.convolution += product({config.d_model, channels, layer.convolution->kernel}) + config.d_model;
    count.convolution_norms += norm(layer.norm, config.d_model);
  }
  return count;
}

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

}  // namespace attnctl

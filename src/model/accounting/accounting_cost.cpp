#include <algorithm>

#include "model/accounting/accounting.hpp"
#include "model/accounting/counts.hpp"

namespace attnctl {

using counts::add;
using counts::entries;
using counts::head_width;
using counts::linear;
using counts::mlp_matrices;
using counts::product;
using counts::sum_of;

namespace {

/// Pairs of query and key at most `reach` - 1 apart, the key not later.
std::uint64_t pairs_within(std::uint64_t n, std::uint64_t reach) {
  const std::uint64_t w = std::min(n, reach);
  return product({n, w}) - product({w, w > 0 ? w - 1 : 0}) / 2;
}

/// Pairs of query and key that the pass computes: all n^2 of full attention, whatever its mask hides.
std::uint64_t computed_pairs(const AttentionConfig& attention, std::uint64_t n) {
  const AttentionKind& kind = attention.kind;
  const std::uint64_t size = kind.size;
  std::uint64_t backwards = 0;  // the key not later
  switch (kind.rule) {
    case AttentionKind::Rule::full:
      return product({n, n});
    case AttentionKind::Rule::linear:
      return 0;
    case AttentionKind::Rule::window:
      backwards = pairs_within(n, size);
      break;
    case AttentionKind::Rule::block:
      backwards = sum_of({product({n / size, pairs_within(size, size)}), pairs_within(n % size, n % size)});
      break;
    case AttentionKind::Rule::strided: {
      const std::uint64_t strides = n == 0 ? 0 : (n - 1) / size;  // of which each leaves n - k size pairs
      backwards = sum_of({pairs_within(n, size), product({n, strides})}) -
                  product({size, product({strides, strides + 1}) / 2});
      break;
    }
  }
  return attention.causal ? backwards : sum_of({backwards, backwards}) - n;
}

/// Sums over keys of linear attention, each key into them and each query out of them, `width` wide.
std::uint64_t linear_flops(const AttentionConfig& attention, std::uint64_t n, std::uint64_t width) {
  return product({2, n, sum_of({attention.kv_heads, attention.heads}), attention.d_head, width});
}

std::uint64_t pair_flops(const AttentionConfig& attention, std::uint64_t n, std::uint64_t width) {
  return product({2, computed_pairs(attention, n), attention.heads, width});
}

}  // namespace

FlopCount count_flops(const ModelConfig& config, std::size_t length) {
  FlopCount count;
  const std::uint64_t n = length;
  const std::uint64_t d = config.d_model;
  for (const LayerConfig& layer : config.layers) {
    const AttentionConfig& attention = layer.attention;
    const bool has_value = attention.value.weight;
    const bool linear = attention.kind.rule == AttentionKind::Rule::linear;
    const auto project = [&](LinearParts parts, std::uint64_t in, std::uint64_t out) {
      return product({2, n, entries(parts, in, out)});
    };
    add(count.projections,
        project(attention.query, d, product({attention.query_slices(), attention.d_head})));
    add(count.projections,
        project(attention.key, config.d_key_input, product({attention.kv_heads, attention.d_head})));
    if (has_value) {
      add(count.projections,
          project(attention.value, config.d_value_input, product({attention.kv_heads, attention.d_value})));
      add(count.values, linear ? linear_flops(attention, n, attention.d_value)
                               : pair_flops(attention, n, attention.d_value));
    }
    add(count.scores, linear ? linear_flops(attention, n, 1) : pair_flops(attention, n, attention.d_head));
    if (attention.output.weight) {
      add(count.output,
          project(attention.output, product({attention.heads, attention.d_value}), config.d_output));
    }
    add(count.mlp, product({2, mlp_matrices(layer.mlp), n, d, layer.mlp.width}));
  }
  if (config.embedding.projection.weight) count.embedding = product({2, n, config.embedding.width, d});
  if (config.embedding.pixels.present() && n > 0) {  // all tokens but the first are patches
    add(count.embedding, product({2, n - 1, config.embedding.pixels.patch_size(), config.embedding.width}));
  }
  if (config.head.present) {
    const std::uint64_t width = head_width(config);
    count.head = product({2, n, width, config.output_embedding().vocabulary});
    if (config.head.transform) add(count.head, product({2, n, d, width}));
  }
  count.all = sum_of(
      {count.projections, count.scores, count.values, count.output, count.mlp, count.embedding, count.head});
  return count;
}

PatternMemory count_pattern_memory(const ModelConfig& config, std::size_t length) {
  PatternMemory memory;
  for (const LayerConfig& layer : config.layers) {
    const std::uint64_t bytes =
        product({sizeof(float), layer.attention.heads, computed_pairs(layer.attention, length)});
    add(memory.all, bytes);
    memory.layer = std::max(memory.layer, bytes);
  }
  return memory;
}

std::uint64_t count_cache_bytes(const ModelConfig& config, std::size_t bytes_per_value) {
  std::uint64_t bytes = 0;
  for (const LayerConfig& layer : config.layers) {
    if (layer.attention.kind.rule == AttentionKind::Rule::linear) continue;  // sums of a fixed size
    const std::uint64_t both = sum_of({layer.attention.d_head, layer.attention.d_value});
    add(bytes, product({bytes_per_value, layer.attention.kv_heads, both}));
  }
  return bytes;
}

}  // namespace attnctl

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "model/accounting/accounting.hpp"
#include "model/accounting/counts.hpp"

namespace attnctl {

using counts::add;
using counts::product;
using counts::sum;

namespace {

/// Returns the number of pairs whose key is at most `reach` - 1 before the query.
std::uint64_t pairs_within(std::uint64_t n, std::uint64_t reach) {
  const std::uint64_t w = std::min(n, reach);
  return product({n, w}) - product({w, w > 0 ? w - 1 : 0}) / 2;
}

/// Returns the number of pairs that the pass computes: for full attention all n^2, even if a mask hides some.
std::uint64_t computed_pairs(const AttentionConfig& attention, std::uint64_t n) {
  const AttentionKind& kind = attention.kind;
  const std::uint64_t size = kind.size;
  std::uint64_t backwards = 0;  // pairs whose key is not after the query
  switch (kind.rule) {
    case AttentionKind::Rule::full:
      return product({n, n});
    case AttentionKind::Rule::linear:
      return 0;
    case AttentionKind::Rule::window:
      backwards = pairs_within(n, size);
      break;
    case AttentionKind::Rule::block:
      backwards = sum({product({n / size, pairs_within(size, size)}), pairs_within(n % size, n % size)});
      break;
    case AttentionKind::Rule::strided: {
      const std::uint64_t strides = n == 0 ? 0 : (n - 1) / size;  // stride k has n - k size pairs
      backwards = sum({pairs_within(n, size), product({n, strides})}) -
                  product({size, product({strides, strides + 1}) / 2});
      break;
    }
  }
  return attention.causal ? backwards : sum({backwards, backwards}) - n;
}

/// Returns the FLOPs of linear attention: adding each key to the running sums and reading them per query.
std::uint64_t linear_flops(const AttentionConfig& attention, std::uint64_t n, std::uint64_t width) {
  return product({2, n, sum({attention.kv_heads, attention.heads}), attention.d_head, width});
}

std::uint64_t pair_flops(const AttentionConfig& attention, std::uint64_t n, std::uint64_t width) {
  return product({2, computed_pairs(attention, n), attention.heads, width});
}

/// A number of query and key/value heads to compare.
struct HeadLayout {
  const char* name;
  std::size_t heads;
  std::size_t kv_heads;
};

/// Returns a model with one layer that has only attention, with this head layout.
ModelConfig attention_only(const ModelConfig& config, const HeadLayout& layout) {
  const LayerConfig& first = config.layers.at(0);
  ModelConfig only;
  only.d_model = config.d_model;
  only.d_key_input = config.d_key_input;
  only.d_value_input = config.d_value_input;
  only.d_output = config.d_output;
  LayerConfig layer;
  layer.place = NormPlace::none;
  layer.attention = first.attention;
  AttentionConfig& attention = layer.attention;
  attention.heads = layout.heads;
  attention.kv_heads = layout.kv_heads;
  attention.head_slices.clear();
  attention.d_head = first.attention.d_head * first.attention.heads / layout.heads;
  attention.d_value = first.attention.d_value * first.attention.heads / layout.heads;
  only.layers.push_back(std::move(layer));
  return only;
}

/// Returns the divisor of `heads` nearest to heads / 4 (the smaller on a tie), other than 1 and `heads`.
std::optional<std::size_t> usual_groups(std::size_t heads) {
  std::optional<std::size_t> best;
  const auto miss = [&](std::size_t groups) {
    const double wanted = static_cast<double>(heads) / 4;
    return std::abs(static_cast<double>(groups) - wanted);
  };
  const auto offer = [&](std::size_t groups) {
    const bool nearer =
        !best || miss(groups) < miss(*best) || (miss(groups) == miss(*best) && groups < *best);
    if (nearer) best = groups;
  };
  for (std::size_t divisor = 2; divisor * divisor <= heads; ++divisor) {
    if (heads % divisor != 0) continue;
    offer(divisor);
    offer(heads / divisor);
  }
  return best;
}

std::vector<HeadLayout> layouts_of(const AttentionConfig& attention) {
  const std::size_t h = attention.heads;
  std::vector<HeadLayout> layouts = {{"single head", 1, 1}};
  if (h == 1) return layouts;
  layouts.push_back({"multi-head", h, h});
  if (!attention.key.weight) return layouts;
  const bool grouped = attention.kv_heads > 1 && attention.kv_heads < h;
  if (const auto groups = grouped ? attention.kv_heads : usual_groups(h)) {
    layouts.push_back({"grouped-query", h, *groups});
  }
  layouts.push_back({"multi-query", h, 1});
  return layouts;
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
      return product({2, n, counts::entries(parts, in, out)});
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
    add(count.mlp, product({2, counts::mlp_matrices(layer.mlp), n, d, layer.mlp.width}));
  }
  if (config.embedding.projection.weight) count.embedding = product({2, n, config.embedding.width, d});
  if (config.embedding.pixels.present() && n > 0) {  // the first token is the class token
    add(count.embedding, product({2, n - 1, config.embedding.pixels.patch_size(), config.embedding.width}));
  }
  if (config.head.present) {
    const std::uint64_t width = counts::head_width(config);
    count.head = product({2, n, width, config.output_embedding().vocabulary});
    if (config.head.transform) add(count.head, product({2, n, d, width}));
  }
  count.all = sum(
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
    if (layer.attention.kind.rule == AttentionKind::Rule::linear) continue;  // keeps sums of a fixed size
    const std::uint64_t both = sum({layer.attention.d_head, layer.attention.d_value});
    add(bytes, product({bytes_per_value, layer.attention.kv_heads, both}));
  }
  return bytes;
}

Table compare_attention(const ModelConfig& config, std::size_t length) {
  const AttentionConfig& own = config.layers.at(0).attention;
  std::vector<std::vector<Cell>> rows;
  for (const HeadLayout& layout : layouts_of(own)) {
    const ModelConfig only = attention_only(config, layout);
    const FlopCount flops = count_flops(only, length);
    std::vector<Cell> row = {std::string(layout.name), own.head_slices.empty() && layout.heads == own.heads &&
                                                           layout.kv_heads == own.kv_heads};
    for (const std::uint64_t count :
         {std::uint64_t{layout.heads}, std::uint64_t{layout.kv_heads},
          std::uint64_t{only.layers[0].attention.d_head}, count_parameters(only).attention, flops.projections,
          flops.scores, flops.values, flops.output, flops.all, flops.all / 2, (flops.all - flops.values) / 2,
          count_pattern_memory(only, length).layer, count_cache_bytes(only)}) {
      row.push_back(counts::cell(count));
    }
    rows.push_back(std::move(row));
  }
  return make_table("comparison",
                    {"variant", "own", "heads", "kv_heads", "d_head", "parameters", "projections", "scores",
                     "values", "output", "flops", "multiply_adds", "multiply_adds_one_product",
                     "pattern_bytes", "cache_bytes_per_token"},
                    std::move(rows));
}

}  // namespace attnctl

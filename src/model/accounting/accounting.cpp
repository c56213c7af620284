#include "model/accounting/accounting.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace attnctl::model {
namespace {

constexpr std::array<Definition, 4> kStepColumns = {
    {{"step", "", "", "", "step of the attention of the first layer"},
     {"tensor", "", "", "", "array that the step computes"},
     {"shape", "", "", "", "extents of its axes"},
     {"values", "", "from 1", "", "number of its values"}}};
constexpr std::array<Definition, 15> kComparisonColumns = {
    {{"variant", "", "", "", "division of the attention into heads, of the same total width in all rows"},
     {"own", "", "true or false", "", "whether the model has the heads of this variant"},
     {"heads", "", "from 1", "", "number of query heads"},
     {"kv_heads", "", "from 1", "", "number of key/value heads"},
     {"d_head", "", "from 1", "", "width of a query or key"},
     {"parameters", "", "from 0", "", "parameters of the attention of the first layer, with biases"},
     {"projections", "FLOPs", "from 0", "", "products with W_Q, W_K and W_V"},
     {"scores", "FLOPs", "from 0", "", "products of queries and keys"},
     {"values", "FLOPs", "from 0", "", "products of the pattern and the values"},
     {"output", "FLOPs", "from 0", "", "product with W_O"},
     {"flops", "FLOPs", "from 0", "", "sum of the four products; a multiply-add is 2 FLOPs"},
     {"multiply_adds", "", "from 0", "", "half of flops"},
     {"multiply_adds_one_product", "", "from 0", "",
      "multiply_adds without the products of pattern and values"},
     {"pattern_bytes", "bytes", "from 0", "", "float32 patterns of the layer for one sequence"},
     {"cache_bytes_per_token", "bytes", "from 0", "", "float32 keys and values of one token"}}};
constexpr std::array<Definition, 4> kSharingColumns = {
    {{"kind", "", "", "", "layers, query_key, tied_heads, kv_head or factorised"},
     {"layers", "", "", "", "numbers of the layers, as in --layers"},
     {"heads", "", "", "",
      "numbers of the heads that share weights, as in --heads; null if the row is not about heads"},
     {"text", "", "", "", "what is shared or factorised"}}};

/// Returns the count. Throws Error(limit) if it is nullopt, because the count needs more than 64 bits.
std::uint64_t checked(std::optional<std::uint64_t> count) {
  if (!count) fail(Status::limit, "these sizes give counts of 2^63 or more; use smaller sizes");
  return *count;
}

std::uint64_t product(const std::vector<std::uint64_t>& factors) {
  return checked(checked_product(factors));
}

void add(std::uint64_t& total, std::uint64_t count) {
  total = checked(checked_add(total, count));
}

std::uint64_t sum(std::initializer_list<std::uint64_t> counts) {
  std::uint64_t total = 0;
  for (const std::uint64_t count : counts) add(total, count);
  return total;
}

/// Returns a count as a table cell. Throws Error(limit) if the count needs more than 63 bits.
Cell cell(std::uint64_t count) {
  (void)checked(checked_mul<std::uint64_t>(count, 2));
  return static_cast<std::int64_t>(count);
}

struct ProjectionSize {
  LinearParts parts;
  std::uint64_t in, out;
};

/// Returns the number of elements of a weight, or of both factors if the weight is factorized. This is also
/// the number of multiply-adds per row.
std::uint64_t entries(const ProjectionSize& size) {
  return size.parts.rank > 0 ? product({sum({size.in, size.out}), size.parts.rank})
                             : product({size.in, size.out});
}

std::uint64_t linear_parameters(const ProjectionSize& size) {
  return sum({size.parts.weight ? entries(size) : 0, size.parts.bias ? size.out : 0});
}

std::uint64_t norm_parameters(const NormConfig& config, std::uint64_t width) {
  if (config.kind == NormKind::none) return 0;
  return (config.gain ? width : 0) + (config.bias ? width : 0);
}

/// Returns the number of elements of the matrices of the MLP. With experts, counts the router, `used`
/// experts, and the shared expert with the vector [d] that computes its gate. If `used` is the number of
/// experts per token, this is also the number of multiply-adds per token.
std::uint64_t mlp_entries(const LayerConfig& layer, std::uint64_t d, std::uint64_t used) {
  const ExpertsConfig& experts = layer.experts;
  const std::uint64_t one = product({layer.mlp.gated ? 3U : 2U, d, layer.mlp.width});
  if (layer.mlp.width == 0 || experts.count == 0) return one;
  const std::uint64_t shared = experts.shared_width == 0 ? 0 : product({3, d, experts.shared_width}) + d;
  return sum({product({used, one}), product({d, experts.count}), shared});
}

/// Adds the parameters of position tables that a stack of layers shares, and of convolutions over the
/// embeddings, with their norms.
void add_position_parameters(const ModelConfig& config, ParameterCount& count) {
  const AttentionConfig& attention = config.layers.front().attention;
  std::map<Component, std::uint64_t> tables;  // one per stack
  for (const LayerConfig& layer : config.layers) {
    const auto& buckets = layer.attention.relative_buckets;
    if (buckets) tables[layer.component] = product({buckets->rows, layer.attention.heads});
    if (!layer.convolution) continue;
    const std::uint64_t channels = config.d_model / layer.convolution->groups;
    add(count.embedding, product({config.d_model, channels, layer.convolution->kernel}) + config.d_model);
    add(count.norms, norm_parameters(layer.norm, config.d_model));
  }
  if (attention.disentangled) {
    add(tables[Component::none], product({2, attention.disentangled->span, config.d_model}));
    add(count.norms, norm_parameters(attention.disentangled->norm, config.d_model));
  }
  for (const auto& [component, entries] : tables) add(count.attention, entries);
}

std::uint64_t head_norms(const AttentionConfig& attention) {
  const std::uint64_t d = attention.d_head;
  const std::uint64_t heads = sum({attention.heads, attention.kv_heads});
  return attention.head_norm_span == HeadNormSpan::shared
             ? 2 * norm_parameters(attention.head_norm, d)
             : norm_parameters(attention.head_norm, product({heads, d}));
}

std::uint64_t branch_norms(const LayerConfig& layer) {
  if (layer.place == NormPlace::none) return 0;
  if (layer.place == NormPlace::both) return 4;
  const std::uint64_t own = layer.attention_normed ? 1 : 0;
  return layer.shared_norm || layer.mlp.width == 0 ? own : own + 1;
}

std::array<ProjectionSize, 4> projections_of(const ModelConfig& config, const AttentionConfig& attention) {
  const std::uint64_t k = attention.d_head;
  const std::uint64_t v = attention.d_value;
  return {{{attention.query, config.d_model, product({attention.query_slices(), k})},
           {attention.key, config.d_key_input, product({attention.kv_heads, k})},
           {attention.value, config.d_value_input, product({attention.kv_heads, v})},
           {attention.output, product({attention.heads, v}), config.d_output}}};
}

LayerParameters count_layer(const ModelConfig& config, const LayerConfig& layer) {
  const AttentionConfig& attention = layer.attention;
  const std::uint64_t d = config.d_model;
  const auto [query, key, value, output] = projections_of(config, attention);
  LayerParameters count = {.query = linear_parameters(query),
                           .key = linear_parameters(key),
                           .value = linear_parameters(value),
                           .output = linear_parameters(output)};
  count.attention = sum({count.query, count.key, count.value, count.output});
  const ExpertsConfig& experts = layer.experts;
  const std::uint64_t biases = layer.mlp.bias ? product({layer.mlp.gated ? 2U : 1U, layer.mlp.width}) + d : 0;
  count.mlp =
      sum({mlp_entries(layer, d, experts.count), product({std::max<std::uint64_t>(experts.count, 1), biases}),
           experts.router_bias ? experts.count : 0});
  count.norms = product({branch_norms(layer), norm_parameters(layer.norm, d)});
  add(count.norms, head_norms(attention));
  if (attention.sinks) add(count.attention, attention.heads);
  if (attention.disentangled) {
    const std::uint64_t outputs = product({attention.heads, attention.d_head});
    for (const LinearParts& parts : {attention.disentangled->key, attention.disentangled->query})
      add(count.attention, linear_parameters({parts, d, outputs}));
  }
  count.all = sum({count.attention, count.mlp, count.norms});
  return count;
}

std::uint64_t count_embedding(const EmbeddingConfig& embedding, const ModelConfig& config) {
  const std::uint64_t positions =
      embedding.position == PositionKind::learned ? *config.max_positions + embedding.position_offset : 0;
  const std::uint64_t position_width = embedding.positions_last ? config.d_model : embedding.width;
  const PatchGrid& grid = embedding.pixels;
  return sum({product({sum({embedding.vocabulary, embedding.token_types}), embedding.width}),
              product({positions, position_width}),
              linear_parameters({embedding.projection, embedding.width, config.d_model}),
              grid.present() ? embedding.width : 0,  // the class token
              grid.present() ? linear_parameters({{true, true}, grid.patch_size(), embedding.width}) : 0});
}

std::uint64_t count_head(const ModelConfig& config) {
  if (!config.head.present) return 0;
  const std::uint64_t width = config.head_width();
  const LinearParts decoder = {!config.head.tied, config.head.bias};
  std::uint64_t count = sum({linear_parameters({config.head.projection, config.d_model, width}),
                             linear_parameters({decoder, width, config.output_embedding().vocabulary})});
  if (config.head.transform) {
    add(count, linear_parameters({{true, config.head.transform_bias}, config.d_model, width}));
    add(count, norm_parameters(config.head.norm, width));
  }
  return count;
}

/// Returns the number of pairs (query, key) with 0 <= query position - key position < reach among n
/// positions.
std::uint64_t pairs_within(std::uint64_t n, std::uint64_t reach) {
  const std::uint64_t w = std::min(n, reach);
  return product({n, w}) - product({w, w > 0 ? w - 1 : 0}) / 2;
}

/// Returns the number of pairs (query, key) whose score is counted: all n^2 pairs for full attention, even if
/// a mask hides some; 0 for linear attention; otherwise the pairs that the kind and the causal mask allow.
std::uint64_t computed_pairs(const AttentionConfig& attention, std::uint64_t n) {
  const AttentionKind& kind = attention.kind;
  const std::uint64_t size = kind.size;
  std::uint64_t backwards = 0;  // pairs whose key is at the query's position or before it
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
      const std::uint64_t strides = n == 0 ? 0 : (n - 1) / size;  // stride number k has n - k * size pairs
      backwards = sum({pairs_within(n, size), product({n, strides})}) -
                  product({size, product({strides, strides + 1}) / 2});
      break;
    }
  }
  return attention.causal ? backwards : sum({backwards, backwards}) - n;
}

/// Returns the FLOPs of `width` multiply-adds for each head and each pair of a query and a key that is
/// counted. Linear attention has no pairs: it adds each key to its running sums and multiplies each query by
/// them.
std::uint64_t pattern_flops(const AttentionConfig& attention, std::uint64_t n, std::uint64_t width) {
  if (attention.kind.rule == AttentionKind::Rule::linear)
    return product({2, n, sum({attention.kv_heads, attention.heads}), attention.d_head, width});
  return product({2, computed_pairs(attention, n), attention.heads, width});
}

struct HeadLayout {
  const char* name;
  std::size_t heads;
  std::size_t kv_heads;
};

/// Returns the configuration with only the attention of the first layer, with these numbers of heads. Norms
/// and the parameters of a decoder remain; they have no FLOPs.
ModelConfig attention_only(const ModelConfig& config, const HeadLayout& layout) {
  ModelConfig only = config;
  only.embedding = {};
  only.head = {};
  only.layers.resize(1);
  only.layers[0].mlp = {};
  AttentionConfig& attention = only.layers[0].attention;
  attention.d_head = attention.d_head * attention.heads / layout.heads;
  attention.d_value = attention.d_value * attention.heads / layout.heads;
  attention.heads = layout.heads;
  attention.kv_heads = layout.kv_heads;
  attention.head_slices.clear();
  return only;
}

/// Returns the divisor of `heads`, except 1 and `heads`, that is nearest to heads / 4; if two are, the
/// smaller. Returns nullopt if there is none.
std::optional<std::size_t> usual_groups(std::size_t heads) {
  std::optional<std::size_t> best;
  const auto rank = [&](std::size_t groups) {
    return std::pair(4 * groups > heads ? 4 * groups - heads : heads - 4 * groups, groups);
  };
  for (std::size_t divisor = 2; divisor * divisor <= heads; ++divisor) {
    for (const std::size_t groups : {divisor, heads / divisor}) {
      if (heads % divisor == 0 && (!best || rank(groups) < rank(*best))) best = groups;
    }
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
  if (const auto groups = grouped ? attention.kv_heads : usual_groups(h))
    layouts.push_back({"grouped-query", h, *groups});
  layouts.push_back({"multi-query", h, 1});
  return layouts;
}

/// Formats ascending numbers as ranges: "0,1", "0-7" or "0,2-5".
std::string number_ranges(const std::vector<std::size_t>& numbers) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = last) {
    while (last < numbers.size() && numbers[last] == numbers[first] + (last - first)) ++last;
    if (last - first == 2) last = first + 1;  // "0,1" reads better than "0-1"
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[first]);
    if (last - first > 1) text += fmt::format("-{}", numbers[last - 1]);
  }
  return text;
}

struct SharingRow {
  std::string kind, heads, text;
  Component component = Component::none;
  std::vector<std::size_t> layers = {};  // numbers in the component
};

void add_to(std::vector<SharingRow>& rows, const LayerConfig& layer, SharingRow row) {
  row.component = layer.component;
  const auto same = [&](const SharingRow& known) {
    return known.kind == row.kind && known.text == row.text && known.component == row.component;
  };
  auto found = std::ranges::find_if(rows, same);
  if (found == rows.end()) found = rows.insert(found, row);
  found->layers.push_back(layer.number);
}

void add_heads(const LayerConfig& layer, std::vector<SharingRow>& rows) {
  const AttentionConfig& attention = layer.attention;
  std::map<std::size_t, std::vector<std::size_t>> groups;  // of heads; by kv_head()
  for (std::size_t head = 0; head < attention.heads; ++head) groups[attention.kv_head(head)].push_back(head);
  const bool tied = !attention.head_slices.empty();
  const bool has_value = attention.value.weight;
  for (const auto& [slice, heads] : groups) {
    if (heads.size() < 2) continue;
    const std::string list = number_ranges(heads);
    add_to(rows, layer,
           {tied ? "tied_heads" : "kv_head", list,
            tied ? fmt::format("heads {} are tied to slice {} of {}", list, slice,
                               has_value ? "W_Q, W_K and W_V" : "W_Q and W_K")
                 : fmt::format("heads {} share {} (key/value head {})", list,
                               has_value ? "W_K and W_V" : "W_K", slice)});
  }
}

}  // namespace

ParameterCount count_parameters(const ModelConfig& config) {
  ParameterCount count;
  std::set<LayerConfig::Key> counted;
  for (const LayerConfig& layer : config.layers) {
    const LayerParameters one = count_layer(config, layer);
    count.layers.push_back(one);
    if (!counted.insert(layer.stored()).second) continue;
    add(count.attention, one.attention);
    add(count.mlp, one.mlp);
    add(count.norms, one.norms);
  }
  add_position_parameters(config, count);
  add(count.embedding, count_embedding(config.embedding, config));
  add(count.norms,
      norm_parameters(config.embedding.norm,
                      config.embedding.projected_first ? config.d_model : config.embedding.width));
  add(count.norms, norm_parameters(config.final_norm, config.d_model));
  if (config.decoder) {
    EmbeddingConfig target = config.decoder->embedding;
    if (config.decoder->shares_tokens) target.vocabulary = 0;
    add(count.embedding, count_embedding(target, config));
    add(count.norms, norm_parameters(target.norm, target.width));
    add(count.norms, norm_parameters(config.decoder->encoder_norm, config.d_model));
  }
  count.head = count_head(config);
  count.all = sum({count.attention, count.mlp, count.norms, count.embedding, count.head});
  return count;
}

Table shape_walk(const ModelConfig& config, std::size_t batch, std::size_t length) {
  const AttentionConfig& attention = config.layers.at(0).attention;
  const std::uint64_t B = batch;  // NOLINT(readability-identifier-naming): as in the shapes [B, n, d]
  const std::uint64_t n = length;
  const std::uint64_t h = attention.heads;
  const std::uint64_t s = attention.query_slices();
  const std::uint64_t g = attention.kv_heads;
  const std::uint64_t k = attention.d_head;
  const std::uint64_t v = attention.d_value;
  std::vector<std::vector<Cell>> rows;
  const auto step = [&](std::string name, std::string tensor, const std::vector<std::uint64_t>& shape) {
    rows.push_back({std::move(name), std::move(tensor), to_string(Shape(shape.begin(), shape.end())),
                    cell(product(shape))});
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
    if (attention.output.weight)
      step(attention.output.rank > 0 ? "z W_O_a W_O_b" : "z W_O", "output", {B, n, config.d_output});
  }
  return make_table("shapes", {kStepColumns.begin(), kStepColumns.end()}, std::move(rows));
}

FlopCount count_flops(const ModelConfig& config, std::size_t length) {
  FlopCount count;
  const std::uint64_t n = length;
  const std::uint64_t d = config.d_model;
  for (const LayerConfig& layer : config.layers) {
    const AttentionConfig& attention = layer.attention;
    const bool linear = attention.kind.rule == AttentionKind::Rule::linear;
    const auto [query, key, value, output] = projections_of(config, attention);
    const auto flops = [&](const ProjectionSize& size) { return product({2, n, entries(size)}); };
    add(count.projections, sum({flops(query), flops(key)}));
    add(count.scores, pattern_flops(attention, n, linear ? 1 : attention.d_head));
    if (value.parts.weight) {
      add(count.projections, flops(value));
      add(count.values, pattern_flops(attention, n, attention.d_value));
    }
    if (output.parts.weight) add(count.output, flops(output));
    add(count.mlp, product({2, n, mlp_entries(layer, d, layer.experts.per_token)}));
  }
  if (config.embedding.projection.weight) count.embedding = product({2, n, config.embedding.width, d});
  if (config.embedding.pixels.present() && n > 0) {  // the first token is the class token, not a patch
    add(count.embedding, product({2, n - 1, config.embedding.pixels.patch_size(), config.embedding.width}));
  }
  if (config.head.present) {
    const std::uint64_t width = config.head_width();
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

std::uint64_t count_cache_bytes(const ModelConfig& config) {
  std::uint64_t bytes = 0;
  for (const LayerConfig& layer : config.layers) {
    // Linear attention keeps running sums of a fixed size.
    if (layer.attention.kind.rule == AttentionKind::Rule::linear) continue;
    const std::uint64_t both = sum({layer.attention.d_head, layer.attention.d_value});
    add(bytes, product({sizeof(float), layer.attention.kv_heads, both}));
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
      row.push_back(cell(count));
    }
    rows.push_back(std::move(row));
  }
  return make_table("comparison", {kComparisonColumns.begin(), kComparisonColumns.end()}, std::move(rows));
}

std::vector<NamedDefinitions> definitions() {
  return {{"comparison", kComparisonColumns}, {"shapes", kStepColumns}, {"sharing", kSharingColumns}};
}

Table sharing_table(const ModelConfig& config, const Model* model) {
  std::vector<SharingRow> rows;
  std::map<LayerConfig::Key, std::vector<std::size_t>> sharing;
  for (const LayerConfig& layer : config.layers) sharing[layer.stored()].push_back(layer.number);
  for (const auto& [stored_as, layers] : sharing) {
    if (layers.size() < 2) continue;
    rows.push_back({"layers", "", fmt::format("layers {} share all weights", number_ranges(layers)),
                    stored_as.component, layers});
  }
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    const AttentionConfig& attention = layer.attention;
    if (!attention.key.weight) {
      add_to(rows, layer, {"query_key", "", "W_Q = W_K: there is no W_K, W_Q is used"});
    } else if (model != nullptr && model->key_is_query(i)) {
      add_to(rows, layer, {"query_key", "", "W_Q = W_K: two tensors with the same values"});
    }
    add_heads(layer, rows);
    for (const auto& [name, parts] : {std::pair("W_Q", attention.query),
                                      {"W_K", attention.key},
                                      {"W_V", attention.value},
                                      {"W_O", attention.output}}) {
      if (parts.weight && parts.rank > 0)
        add_to(rows, layer, {"factorised", "", fmt::format("{} factorised, rank {}", name, parts.rank)});
    }
  }
  std::vector<std::vector<Cell>> cells;
  for (const SharingRow& row : rows) {
    std::vector<Cell>& all = cells.emplace_back();
    if (config.decoder) all.emplace_back(std::string(name_of(row.component)));
    all.insert(all.end(),
               {row.kind, number_ranges(row.layers), row.heads.empty() ? Cell() : Cell(row.heads), row.text});
  }
  std::vector<Column> columns = columns_of(kSharingColumns, {"component", "kind", "layers", "heads", "text"});
  if (!config.decoder) columns.erase(columns.begin());
  return make_table("sharing", std::move(columns), std::move(cells));
}

}  // namespace attnctl::model

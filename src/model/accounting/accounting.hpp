#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/config/config.hpp"
#include "model/model.hpp"
#include "results/results.hpp"

namespace attnctl::model {

// The cost of a model, computed from its configuration. Functions throw Error(limit) if a count is 2^64 or
// more, or if a count in a table is 2^63 or more.

struct LayerParameters {
  std::uint64_t query = 0, key = 0, value = 0, output = 0;  // including biases
  std::uint64_t attention = 0;  // the four above, sinks, and projections of distance embeddings
  std::uint64_t mlp = 0, norms = 0;
  std::uint64_t all = 0;  // attention, MLP and norms
};

/// The numbers of parameters of a model. The totals count weights that several layers share only once.
struct ParameterCount {
  std::uint64_t all = 0;  // all that the forward pass and the head use, so no poolers
  /// W_Q, W_K, W_V and W_O with their biases, sinks, and tables and projections of distances.
  std::uint64_t attention = 0;
  std::uint64_t mlp = 0;        // including experts and routers
  std::uint64_t norms = 0;      // all norms except that of the head, which counts in `head`
  std::uint64_t embedding = 0;  // embedding tables, projections, and the convolution over the embeddings
  std::uint64_t head = 0;       // a tied output matrix counts 0

  std::vector<LayerParameters> layers;  // a layer that shares weights with another is counted too
};
[[nodiscard]] ParameterCount count_parameters(const ModelConfig& config);

/// The floating-point operations (FLOPs) of the matrix products for one sequence of n tokens. A multiply-add
/// counts as 2. For full attention, all n^2 scores are counted, even if a mask hides some of them. For
/// window, block and strided attention, only the scores that the kind and the causal mask allow are counted.
/// For linear attention, the running sums are counted instead of scores. Not counted: convolutions, products
/// with distance embeddings, and HeadConfig::projection.
struct FlopCount {
  // The formulas are for one layer with full attention, kv_heads = heads and heads * d_head = d.
  std::uint64_t projections = 0;  // q, k, v: 2 * 3 n d^2
  std::uint64_t scores = 0;       // 2 * n^2 d
  std::uint64_t values = 0;       // pattern times V: 2 * n^2 d
  std::uint64_t output = 0;       // 2 * n d^2
  std::uint64_t mlp = 0;          // with experts: the router and the experts that a token uses
  std::uint64_t embedding = 0;    // projections from patches, and from the embedding width to d_model
  std::uint64_t head = 0;         // logits of all n positions
  std::uint64_t all = 0;
};
[[nodiscard]] FlopCount count_flops(const ModelConfig& config, std::size_t length);

/// The bytes of the float32 patterns of one sequence: in each layer, 4 bytes per head and score. The scores
/// are those that FlopCount counts (n^2 for full attention; 0 for linear attention).
struct PatternMemory {
  std::uint64_t all = 0;
  std::uint64_t layer = 0;  // of the largest layer
};
[[nodiscard]] PatternMemory count_pattern_memory(const ModelConfig& config, std::size_t length);

/// Returns the bytes that one token adds to the float32 key/value cache of all layers, including those of an
/// encoder and cross-attention. Layers with linear attention add nothing, because they keep sums of a fixed
/// size.
[[nodiscard]] std::uint64_t count_cache_bytes(const ModelConfig& config);

/// Compares the cost of the first layer's attention for several numbers of heads with the same total width
/// (docs/cli.md, `comparison`). The grouped variant is omitted if the number of heads has no divisor except 1
/// and itself. With one head, only the first variant remains. Variants with shared keys are omitted if the
/// model uses W_Q as W_K.
[[nodiscard]] Table compare_attention(const ModelConfig& config, std::size_t length);

/// Returns the shapes of the tensors in each step of the first layer's attention, for `batch` sequences of
/// `length` tokens.
[[nodiscard]] Table shape_walk(const ModelConfig& config, std::size_t batch, std::size_t length);

/// Returns the definitions of the columns of compare_attention(), shape_walk() and sharing_table().
[[nodiscard]] std::vector<NamedDefinitions> definitions();

/// Returns which heads, projections and layers of a model share weights, and which projections are
/// factorized. Layers of one component with equal kind, heads and text form one row. The column component is
/// only for encoder-decoder models. The column heads is null for the kinds layers, query_key and factorised.
/// Kinds:
///   layers      layers with the same weights
///   query_key   W_K equals W_Q: the model has only W_Q, or both are stored with the same bytes
///   tied_heads  heads that use the same stored part of W_Q, W_K and W_V
///   kv_head     heads that share W_K and W_V
///   factorised  a projection stored as two factors, with the rank
/// `model` may be null. Then the function cannot compare the values of stored weights.
[[nodiscard]] Table sharing_table(const ModelConfig& config, const Model* model);

}  // namespace attnctl::model

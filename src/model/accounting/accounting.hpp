#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/config/config.hpp"
#include "results/results.hpp"

namespace attnctl {

// What a model costs, from its configuration alone. Sums that leave 64 bits throw Error(limit).

/// Numbers of parameters; weights that layers share count once in the totals.
struct ParameterCount {
  std::uint64_t all = 0;                // what the forward pass and the head need; poolers are not bound
  std::uint64_t attention = 0;          // W_Q, W_K, W_V, W_O with their biases
  std::uint64_t attention_weights = 0;  // without: 4 d^2 a layer where heads split d
  std::uint64_t mlp = 0;
  std::uint64_t norms = 0;      // of layers, embedding and end; the head's is in `head`
  std::uint64_t embedding = 0;  // tables and projection
  std::uint64_t head = 0;       // 0 for a decoder that is the embedding and has no bias

  struct Layer {
    std::uint64_t query = 0, key = 0, value = 0, output = 0;  // with biases
    std::uint64_t attention = 0;                              // their sum
    std::uint64_t all = 0;                                    // with MLP and norms
  };
  std::vector<Layer> layers;  // each as if its weights were its own
};
[[nodiscard]] ParameterCount count_parameters(const ModelConfig& config);

/// Floating-point operations of one sequence of n tokens (m = n keys); a multiply-add is 2. Products of
/// matrices only; of full attention with all n^2 scores even where a mask hides some, of other kinds with
/// those that they compute, and of linear attention the sums in the place of both products with n^2.
struct FlopCount {
  std::uint64_t projections = 0;  // q, k, v of all layers: 2 * 3 n d^2 a layer where heads split d
  std::uint64_t scores = 0;       // 2 * n^2 d
  std::uint64_t values = 0;       // pattern times V: 2 * n^2 d
  std::uint64_t output = 0;       // 2 * n d^2
  std::uint64_t mlp = 0;
  std::uint64_t embedding = 0;  // projection of narrow embeddings
  std::uint64_t head = 0;       // logits of all n positions
  std::uint64_t all = 0;
};
[[nodiscard]] FlopCount count_flops(const ModelConfig& config, std::size_t length);

/// Bytes of all patterns of one sequence, layers * heads * n^2 in float32, or as many weights as the kind of
/// attention computes; and of the largest layer's.
struct PatternMemory {
  std::uint64_t all = 0;
  std::uint64_t layer = 0;
};
[[nodiscard]] PatternMemory count_pattern_memory(const ModelConfig& config, std::size_t length);

/// Bytes that one token adds to a cache of keys and values, all layers, at `bytes_per_value` (4: float32); a
/// layer of linear attention keeps sums of a fixed size in its place.
[[nodiscard]] std::uint64_t count_cache_bytes(const ModelConfig& config, std::size_t bytes_per_value = 4);

/// What the first layer's attention would cost with other heads of the same width in all: one head of h
/// d_head, h heads, groups of heads that share keys and values (the model's own, else as many as divide the
/// heads and come nearest to heads / 4), and one key/value head for all. Columns: variant, own (the model's),
/// heads, kv_heads, d_head, parameters (biases as the model has them), FLOPs of one sequence of n tokens as
/// projections, scores, values, output and flops (their sum), multiply_adds (half of it),
/// multiply_adds_one_product (without those of `values`: tables in texts often count one of the two products
/// of n^2), pattern_bytes and cache_bytes_per_token in float32. Variants that are an earlier row are left
/// out, and so are shared keys where W_Q serves for W_K.
[[nodiscard]] Table compare_attention(const ModelConfig& config, std::size_t length);

/// The shapes that a batch takes on its way through the first layer's attention: columns step, tensor, shape,
/// values (how many).
[[nodiscard]] Table shape_walk(const ModelConfig& config, std::size_t batch, std::size_t length);

}  // namespace attnctl

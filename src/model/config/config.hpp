#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "model/config/attention_kind.hpp"

namespace attnctl {

// The resolved hyper-parameters of a model: what the forward pass branches on. Nothing here names a family.

/// The part of a model that a layer belongs to. Models with one stack of layers have none; models of an
/// encoder and a decoder have three: each layer of the decoder attends to its own stream and to the encoder's
/// output.
enum class Component { none, encoder, decoder, cross };

/// "enc", "dec", "cross"; "" for none.
[[nodiscard]] std::string_view name_of(Component component);

enum class NormKind { none, layer, rms };
/// Where a layer's norms stand, A being its attention or its MLP.
enum class NormPlace {
  none,    // x + A(x)
  pre,     // x + A(N(x))
  post,    // N(x + A(x))
  output,  // x + N(A(x))
  both,    // x + N'(A(N(x)))
  stream   // y + A(y) of y = N(x)
};
/// What is added to the embeddings. Sinusoidal: sine and cosine of each angle beside each other; halves: all
/// sines, then all cosines.
enum class PositionKind { none, learned, sinusoidal, sinusoidal_halves };
enum class RotaryPairing { half, interleaved };  // pairs (j, j + r/2), or (2j, 2j + 1)
enum class Activation { gelu_erf, gelu_tanh, silu, relu, relu_squared, tanh };

struct NormConfig {
  NormKind kind = NormKind::none;
  float eps = 0;
  bool gain = true;   // stored; else all 1
  bool bias = false;  // stored; else all 0
};

/// What a norm of queries or keys is taken over, and which gains it has.
enum class HeadNormSpan {
  shared,  // each head [d_head], all with the same gains
  each,    // each head, with gains of its own [heads, d_head]
  whole    // all heads together [heads d_head]
};

/// What is added to the score of query i and key j: slope j, of a head's own slope. Positions count from 0.
struct AlibiConfig {
  std::vector<float> slopes;    // [heads]
  bool counts_visible = false;  // j is a place among visible keys, and 0 of a hidden one
  bool from_last = false;       // j is counted back from the last key, which has 0
  bool rounded = false;         // slope, j and slope j are rounded to bfloat16, and added before the scale
};

/// Rotary position: how queries and keys are turned.
struct RotaryConfig {
  RotaryPairing pairing = RotaryPairing::half;
  std::size_t dims = 0;                       // r, of d_head; the rest passes
  std::vector<float> inverse_frequency;       // [r/2], scalings applied, float32 as the reference makes them
  std::vector<float> long_inverse_frequency;  // [r/2] for sequences longer than long_from; else empty
  std::size_t long_from = 0;
  float attention_factor = 1;  // cos and sin times this
};

/// A learnt value for each head and each bucket of the distance from a query to a key, added to the scaled
/// scores (T5). Near distances have buckets of their own, far ones share them by the logarithm.
struct RelativeBuckets {
  std::size_t buckets = 0;
  std::size_t max_distance = 0;  // from here on all are in the last bucket
  bool bidirectional = false;    // half of the buckets are for keys behind the query; else those are at 0
  std::size_t rows = 0;          // of the stored table, at least `buckets`
};

/// What a checkpoint has of y = x W + b.
struct LinearParts {
  bool weight = false;
  bool bias = false;
  std::size_t rank = 0;  // of a factorised W = A B, A [in, rank], B [rank, out]; 0: W is one matrix
};

/// Disentangled attention (DeBERTa): scores of contents against embedded distances, added to those of
/// contents. Distance i - j has row clip(b(i - j) + span, 0, 2 span - 1) of a table that all layers share.
struct DisentangledConfig {
  std::size_t span = 0;
  std::size_t max_distance = 0;      // of the logarithm
  bool logarithmic = false;          // b: far distances by their logarithm; else all as they are
  bool content_to_position = false;  // query i against the position's key
  bool position_to_content = false;  // key j against the position's query
  LinearParts key, query;            // of the table; no weight: the contents' projections serve
  NormConfig norm;                   // of the table's rows
};

struct AttentionConfig {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t d_head = 0;
  std::size_t d_value = 0;  // 0: nothing tells (no W_V)
  double scale = 0;         // of q k^T
  bool causal = false;
  AttentionKind kind;
  float clip = 0;      // queries, keys and values are clamped to [-clip, clip]; 0: they are not
  float soft_cap = 0;  // scores s become c tanh(s / c) before the mask; 0: they do not
  bool sinks = false;  // each head has one more score, of no key: rows of patterns sum to less than 1
  std::shared_ptr<const AlibiConfig> alibi;  // null: none
  NormConfig head_norm;                      // of queries and keys, before they are turned
  HeadNormSpan head_norm_span = HeadNormSpan::shared;
  std::shared_ptr<const RotaryConfig> rotary;               // null: none; layers that turn alike share it
  std::shared_ptr<const RelativeBuckets> relative_buckets;  // null: none
  std::shared_ptr<const DisentangledConfig> disentangled;   // null: none; its terms have `scale`, too
  LinearParts query, key, value, output;                    // no key weight: the query's serves
  std::vector<std::size_t> head_slices;                     // [heads] of tied heads; empty: no heads are tied

  /// Tied heads: W_Q, W_K and W_V are stored as kv_heads slices, and head i uses slice head_slices[i] of all
  /// three (W_O has a slice a head). Else every head has its own query slice, and heads / kv_heads neighbours
  /// share a key/value head.
  [[nodiscard]] std::size_t query_slices() const { return head_slices.empty() ? heads : kv_heads; }
  [[nodiscard]] std::size_t query_slice(std::size_t head) const {
    return head_slices.empty() ? head : head_slices[head];
  }
  [[nodiscard]] std::size_t kv_head(std::size_t head) const {
    return head_slices.empty() ? head / (heads / kv_heads) : head_slices[head];
  }
};

struct MlpConfig {
  std::size_t width = 0;  // 0: the layer has no MLP
  Activation activation = Activation::gelu_erf;
  bool gated = false;  // down(act(gate(x)) * up(x)), else down(act(up(x)))
  bool bias = false;
};

/// An MLP of several experts, of which a router picks some for each token.
struct ExpertsConfig {
  std::size_t count = 0;           // 0: the layer has one MLP
  std::size_t per_token = 0;       // used of them
  bool softmax_of_picked = false;  // weights are a softmax of the picked scores alone, else of all scores
  bool renormalised = false;       // the picked weights are divided by their sum
  bool router_bias = false;
  float limit = 0;   // > 0: (up + 1) g sigmoid(alpha g), g and up clamped by it (g from above alone)
  double alpha = 1;  // of that
  std::size_t shared_width = 0;  // of an expert that takes part in every token, times sigmoid of its own gate
};

/// A convolution over the embeddings, added to a layer's output: x = N(x + act(conv(embeddings))).
struct ConvolutionConfig {
  std::size_t kernel = 0;  // odd: (kernel - 1) / 2 positions to either side, zeros beyond the ends
  std::size_t groups = 1;
  Activation activation = Activation::tanh;
};

/// Attention, and the MLP behind it where there is one. Of a decoder that reads an encoder, a layer is two of
/// these: attention to its own stream without an MLP, then attention to the encoder's output with it.
struct LayerConfig {
  Component component = Component::none;
  std::size_t number = 0;  // of the layer, counted in its component
  AttentionConfig attention;
  MlpConfig mlp;
  ExpertsConfig experts;  // each of mlp.width
  NormConfig norm;
  NormPlace place = NormPlace::pre;
  bool parallel = false;                                 // x + A(N(x)) + M(N'(x)), place being pre
  bool shared_norm = false;                              // N' is N
  bool attention_normed = true;                          // false: N is nothing, under pre-norm
  float residual_multiplier = 1;                         // of what is added to the stream
  std::shared_ptr<const ConvolutionConfig> convolution;  // null: none
  std::size_t stored_as = 0;                             // number of the weights in tensor names

  /// Layers of one key share their weights.
  struct Key {
    Component component = Component::none;
    std::size_t number = 0;
    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs here
  };
  [[nodiscard]] Key stored() const { return {component, stored_as}; }

  /// Of the attention; `norm` is that of the MLP.
  [[nodiscard]] NormConfig attention_norm() const { return attention_normed ? norm : NormConfig{}; }
};

/// Token embeddings of the token that masked others in training are zero, and the others are scaled to what
/// training left of them (ESM): times kept / (1 - the token's share in the sequence).
struct TokenDropout {
  std::int64_t token = 0;
  double kept = 1;
};

struct EmbeddingConfig {
  std::size_t vocabulary = 0;  // 0: no token embedding, inputs come as embeddings or images
  std::size_t width = 0;       // of the tables
  PositionKind position = PositionKind::none;
  bool positions_last = false;         // added behind the projection, else before the norm
  std::size_t position_offset = 0;     // row of position 0 in the table
  std::optional<std::size_t> padding;  // tokens of this id have that row and are not counted
  bool counts_visible = false;         // positions are those among visible tokens; hidden ones have -1
  double multiplier = 1;               // of token embeddings
  std::size_t token_types = 0;
  std::optional<TokenDropout> dropout;
  NormConfig norm;               // after the sum
  LinearParts projection;        // from the tables' width to d_model
  bool projected_first = false;  // the norm follows the projection
  bool zero_hidden = false;      // what the key mask hides is zero in the end
  PatchGrid pixels;              // present: inputs are images, a class token and one for each patch
};

/// What a decoder that reads an encoder has besides its layers.
struct DecoderConfig {
  EmbeddingConfig embedding;                // of the target
  bool shares_tokens = false;               // its token table is the source's
  NormConfig encoder_norm;                  // of the encoder's output, which the decoder reads
  std::optional<std::int64_t> start_token;  // goes before the tokens of a target text
};

/// The output head: logits of the vocabulary.
struct HeadConfig {
  bool present = false;
  bool tied = false;       // the decoder is the token embedding
  bool bias = false;       // of the decoder
  bool transform = false;  // dense, activation, norm before the decoder (masked-token heads)
  bool transform_bias = true;
  Activation activation = Activation::gelu_erf;
  NormConfig norm;
  LinearParts projection;  // from d_model to the width of the decoder
  float multiplier = 1;    // of logits
  float soft_cap = 0;      // logits l become c tanh(l / c); 0: they do not
};

struct ModelConfig {
  std::string family;
  std::size_t d_model = 0;
  std::size_t d_key_input = 0;               // kdim of cross-attention; d_model elsewhere
  std::size_t d_value_input = 0;             // vdim
  std::size_t d_output = 0;                  // of a layer's attention output; 0 without W_V
  std::optional<std::size_t> max_positions;  // the longest sequence; nullopt: any
  EmbeddingConfig embedding;
  std::vector<LayerConfig>
      layers;  // the encoder's, then of each layer of the decoder its own and its cross-attention
  std::optional<DecoderConfig> decoder;  // of a model with an encoder and a decoder
  NormConfig final_norm;                 // behind the last layer
  HeadConfig head;
  std::vector<std::string> vocabulary;    // from the configuration itself (family `attention`)
  std::vector<std::int64_t> special_ids;  // bos, eos, pad, cls, sep as the configuration names them

  /// How many layers a component has.
  [[nodiscard]] std::size_t layers_of(Component component) const;

  /// The embedding of the tokens whose logits the head gives.
  [[nodiscard]] const EmbeddingConfig& output_embedding() const {
    return decoder ? decoder->embedding : embedding;
  }

  /// True where something between W_Q and W_K depends on position, so that QK alone does not determine the
  /// scores.
  [[nodiscard]] bool position_in_scores() const;
};

}  // namespace attnctl

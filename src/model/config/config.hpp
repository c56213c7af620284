#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"

namespace attnctl {

// The resolved hyperparameters of a model. The forward pass branches on these properties, never on a family's
// name.

/// The part of a model that a layer belongs to. A model with one stack of layers uses `none`. In an
/// encoder-decoder model a decoder layer is two entries: `decoder` attends to the decoder's own stream and
/// `cross` attends to the encoder's output.
enum class Component { none, encoder, decoder, cross };

/// Returns "enc", "dec", "cross", or "" for none.
[[nodiscard]] std::string_view name_of(Component component);

/// The keys j that a query i may attend to, before the causal mask and the masks of an input apply.
struct AttentionKind {
  enum class Rule {
    full,
    window,   // |i - j| < size: under a causal mask, the last `size` keys including the query's own position
    block,    // floor(i / size) == floor(j / size)
    strided,  // |i - j| < size or (i - j) mod size == 0 (Child et al. 2019, both patterns in one)
    linear    // all keys; weights are phi(q) phi(k)^T / sum, phi = elu + 1 (Katharopoulos et al. 2020)
  };
  Rule rule = Rule::full;
  std::size_t size = 0;  // at least 1 for window, block and strided

  friend bool operator==(const AttentionKind&, const AttentionKind&) = default;
};

/// Parses "full", "window:64", "block:16", "strided:8" or "linear". Returns nullopt for anything else.
[[nodiscard]] std::optional<AttentionKind> parse_attention_kind(std::string_view text);
[[nodiscard]] std::string to_string(const AttentionKind& kind);

/// The syntax of parse_attention_kind, for error messages.
inline constexpr std::string_view kAttentionKinds = "full, window:W, block:B, strided:S, linear";

enum class NormKind { none, layer, rms };
/// The position of a layer's norms N around its branches; A is the attention or the MLP.
enum class NormPlace {
  none,    // x + A(x)
  pre,     // x + A(N(x))
  post,    // N(x + A(x))
  output,  // x + N(A(x))
  both,    // x + N'(A(N(x)))
  stream   // y + A(y) with y = N(x)
};
/// The position vectors added to the embeddings. `sinusoidal` interleaves sine and cosine;
/// `sinusoidal_halves` stores all sines, then all cosines.
enum class PositionKind { none, learned, sinusoidal, sinusoidal_halves };
enum class RotaryPairing { half, interleaved };  // pairs (j, j + r/2), or (2j, 2j + 1)
enum class Activation { gelu_erf, gelu_tanh, silu, relu, relu_squared, tanh };

struct NormConfig {
  NormKind kind = NormKind::none;
  float eps = 0;
  bool gain = true;   // false: the gain is 1 and not stored
  bool bias = false;  // false: the bias is 0 and not stored
};

/// The elements that one norm of queries or keys covers, and the shape of its gains.
enum class HeadNormSpan {
  shared,  // each head by itself, with the same gains [d_head]
  each,    // each head by itself, with its own gains [heads, d_head]
  whole    // all heads together, gains [heads * d_head]
};

/// ALiBi: slope * j is added to the score of query i and key j. Positions count from 0.
struct AlibiConfig {
  std::vector<float> slopes;    // [heads]
  bool counts_visible = false;  // j counts visible keys only; hidden keys have position 0
  bool from_last = false;       // j counts backwards from the last key, which has position 0
  bool rounded = false;         // slope, j and slope * j are rounded to bfloat16 and added before scaling
};

/// Rotary position embedding of queries and keys.
struct RotaryConfig {
  RotaryPairing pairing = RotaryPairing::half;
  std::size_t dims = 0;                       // number r of rotated dimensions, at most d_head
  std::vector<float> inverse_frequency;       // [r/2] with scaling applied, in float32 like the reference
  std::vector<float> long_inverse_frequency;  // [r/2] for sequences longer than long_from, or empty
  std::size_t long_from = 0;
  float attention_factor = 1;  // multiplies cosines and sines
};

/// T5 position bias: a learned value per head and distance bucket, added to the scaled scores. Small
/// distances have their own buckets; larger ones share buckets on a logarithmic scale.
struct RelativeBuckets {
  std::size_t buckets = 0;
  std::size_t max_distance = 0;  // distances from here on use the last bucket
  bool bidirectional =
      false;             // half of the buckets are for keys after the query; otherwise those use bucket 0
  std::size_t rows = 0;  // rows of the stored table, at least `buckets`
};

/// The stored tensors of y = x W + b.
struct LinearParts {
  bool weight = false;
  bool bias = false;
  std::size_t rank = 0;  // rank of a factorized W = A B with A [in, rank] and B [rank, out]; 0: one matrix
};

/// Disentangled attention (DeBERTa): scores between contents and embedded distances, added to the content
/// scores. Distance i - j uses row clip(bucket(i - j) + span, 0, 2 span - 1) of a table that all layers
/// share.
struct DisentangledConfig {
  std::size_t span = 0;
  std::size_t max_distance = 0;      // the distance at which logarithmic buckets end
  bool logarithmic = false;          // far distances share buckets on a logarithmic scale
  bool content_to_position = false;  // adds query content i times position key
  bool position_to_content = false;  // adds key content j times position query
  LinearParts key, query;            // projections of the table; without a weight, the content projections
  NormConfig norm;                   // norm of the table's rows
};

struct AttentionConfig {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t d_head = 0;
  std::size_t d_value = 0;  // 0: unknown, because the model lacks W_V
  double scale = 0;         // factor of q k^T
  bool causal = false;
  AttentionKind kind;
  float clip = 0;      // queries, keys and values are clamped to [-clip, clip]; 0: no clamping
  float soft_cap = 0;  // scores s become c tanh(s / c) before the mask; 0: no cap
  bool sinks = false;  // the softmax has one extra learned score per head, so pattern rows sum to less than 1
  std::shared_ptr<const AlibiConfig> alibi;  // null: no ALiBi
  NormConfig head_norm;                      // norm of queries and keys, applied before rotation
  HeadNormSpan head_norm_span = HeadNormSpan::shared;
  std::shared_ptr<const RotaryConfig> rotary;               // null: no rotation; layers share equal objects
  std::shared_ptr<const RelativeBuckets> relative_buckets;  // null: none
  std::shared_ptr<const DisentangledConfig> disentangled;   // null: none; `scale` applies to its terms too
  LinearParts query, key, value, output;                    // without a key weight, the query weight is used
  std::vector<std::size_t> head_slices;                     // [heads] if heads are tied; otherwise empty

  /// With tied heads, W_Q, W_K and W_V are stored as kv_heads slices, and head i uses slice head_slices[i] of
  /// all three; W_O has a slice per head. Otherwise every head has its own query slice, and each group of
  /// heads / kv_heads neighbors shares one key/value head.
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
  bool gated = false;  // down(act(gate(x)) * up(x)) instead of down(act(up(x)))
  bool bias = false;
};

/// A mixture of experts: a router chooses `per_token` of `count` MLPs for each token.
struct ExpertsConfig {
  std::size_t count = 0;  // 0: the layer has a single MLP
  std::size_t per_token = 0;
  bool softmax_after_topk = false;  // softmax over the chosen experts' scores; otherwise over all scores
  bool renormalised = false;        // the chosen weights are divided by their sum
  bool router_bias = false;
  /// Above 0: experts compute (up + 1) g sigmoid(alpha g), with up clamped to +-limit and g to at most limit.
  float limit = 0;
  double alpha = 1;
  std::size_t shared_width = 0;  // width of the expert that every token uses, times the sigmoid of its gate
};

/// A convolution over the embeddings, added to a layer's output: x = N(x + act(conv(embeddings))).
struct ConvolutionConfig {
  std::size_t kernel = 0;  // odd: reaches (kernel - 1) / 2 positions to each side, with zero padding
  std::size_t groups = 1;
  Activation activation = Activation::tanh;
};

/// One attention with the MLP that follows it, if any. A decoder layer that reads an encoder is two of these:
/// self-attention without an MLP, then cross-attention with it.
struct LayerConfig {
  Component component = Component::none;
  std::size_t number = 0;  // number of the layer within its component
  AttentionConfig attention;
  MlpConfig mlp;
  ExpertsConfig experts;  // each expert has width mlp.width
  NormConfig norm;
  NormPlace place = NormPlace::pre;
  bool parallel = false;                                 // x + A(N(x)) + M(N'(x)); place is pre
  bool shared_norm = false;                              // parallel only: N' is N
  bool attention_normed = true;                          // false: the attention has no pre-norm
  float residual_multiplier = 1;                         // factor of each branch output
  std::shared_ptr<const ConvolutionConfig> convolution;  // null: none
  std::size_t stored_as = 0;                             // layer number in tensor names

  /// Identifies the stored weights; layers with equal keys share them.
  struct Key {
    Component component = Component::none;
    std::size_t number = 0;
    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs here
  };
  [[nodiscard]] Key stored() const { return {component, stored_as}; }

  /// The norm of the attention branch; `norm` is that of the MLP.
  [[nodiscard]] NormConfig attention_norm() const { return attention_normed ? norm : NormConfig{}; }
};

/// ESM token dropout: embeddings of `token` are zero, and the others are multiplied by
/// kept / (1 - share of `token` in the sequence).
struct TokenDropout {
  std::int64_t token = 0;
  double kept = 1;
};

struct EmbeddingConfig {
  std::size_t vocabulary = 0;  // 0: inputs are embeddings or images
  std::size_t width = 0;       // width of the tables
  PositionKind position = PositionKind::none;
  bool positions_last = false;         // positions are added after the projection; otherwise before the norm
  std::size_t position_offset = 0;     // table row of position 0
  std::optional<std::size_t> padding;  // padding token id: such tokens use this row and are not counted
  bool counts_visible = false;         // positions count visible tokens only; hidden tokens have position -1
  double multiplier = 1;               // factor of token embeddings
  std::size_t token_types = 0;
  std::optional<TokenDropout> dropout;
  NormConfig norm;               // applied to the sum of the tables
  LinearParts projection;        // from the tables' width to d_model
  bool projected_first = false;  // the projection comes before the norm
  bool zero_hidden = false;      // embeddings of tokens hidden by the key mask are set to zero
  PatchGrid pixels;              // if present, inputs are images: a class token, then one token per patch
};

/// The parts of an encoder-decoder model's decoder other than its layers.
struct DecoderConfig {
  EmbeddingConfig embedding;                // embedding of the target sequence
  bool shares_tokens = false;               // the target uses the source's token table
  NormConfig encoder_norm;                  // norm of the encoder output that the decoder reads
  std::optional<std::int64_t> start_token;  // put before the tokens of a target text
};

/// The output head, which computes logits over the vocabulary.
struct HeadConfig {
  bool present = false;
  bool tied = false;       // the output matrix is the token embedding
  bool bias = false;       // bias of the output matrix
  bool transform = false;  // masked-token head: dense layer, activation and norm before the output matrix
  bool transform_bias = true;
  Activation activation = Activation::gelu_erf;
  NormConfig norm;
  LinearParts projection;  // from d_model to the input width of the output matrix
  float multiplier = 1;    // factor of the logits
  float soft_cap = 0;      // logits l become c tanh(l / c); 0: no cap
};

struct ModelConfig {
  std::string family;
  std::size_t d_model = 0;
  std::size_t d_key_input = 0;               // input width of W_K; d_model except in bare cross-attention
  std::size_t d_value_input = 0;             // input width of W_V
  std::size_t d_output = 0;                  // width of a layer's attention output; 0 without W_V
  std::optional<std::size_t> max_positions;  // longest sequence; nullopt: unlimited
  EmbeddingConfig embedding;
  std::vector<LayerConfig> layers;  // encoder layers, then self- and cross-attention of each decoder layer
  std::optional<DecoderConfig> decoder;
  NormConfig final_norm;  // after the last layer
  HeadConfig head;
  std::vector<std::string> vocabulary;    // tokens listed in the configuration (family `attention`)
  std::vector<std::int64_t> special_ids;  // ids of bos, eos, pad, cls and sep

  [[nodiscard]] std::size_t layers_of(Component component) const;

  /// The embedding whose vocabulary the head's logits are over.
  [[nodiscard]] const EmbeddingConfig& output_embedding() const {
    return decoder ? decoder->embedding : embedding;
  }

  /// Returns true if scores depend on positions directly, not only on W_Q and W_K.
  [[nodiscard]] bool position_in_scores() const;
};

/// A head, identified by the layer's index in ModelConfig::layers.
struct HeadId {
  std::size_t layer = 0;
  std::size_t head = 0;
  auto operator<=>(const HeadId&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs here
};

/// Returns "L.H" with the index in ModelConfig::layers.
[[nodiscard]] std::string to_string(HeadId head);

/// Returns the name of a head: "L.H", or in encoder-decoder models "enc.L.H", "dec.L.H" or "cross.L.H" with
/// the layer numbered within its component.
[[nodiscard]] std::string head_name(const ModelConfig& config, HeadId head);
/// Returns the same for a layer: "L" or "enc.L".
[[nodiscard]] std::string layer_name(const ModelConfig& config, std::size_t layer);

}  // namespace attnctl

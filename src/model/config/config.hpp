#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"

namespace attnctl::model {

using attnctl::to_string;  // the overload for Shape

// The resolved hyperparameters of a model. The forward pass depends only on these properties, never on the
// name of a family.

/// The component of a model that a layer belongs to. A model with a single stack of layers uses `none`. In
/// encoder-decoder models, each layer of the decoder is two entries of ModelConfig::layers: `decoder` is the
/// self-attention, and `cross` is the MLP and, before it, the attention to the encoder's output.
enum class Component { none, encoder, decoder, cross };

/// Returns "enc", "dec", "cross", or "" for none.
[[nodiscard]] std::string_view name_of(Component component);

/// The kind of attention of a layer: the keys j that query i may attend to, before the causal mask and the
/// masks of the input are applied. The kind `linear` also replaces the softmax of scores.
struct AttentionKind {
  enum class Rule {
    full,
    window,   // |i - j| < size: under a causal mask, the last `size` keys including the query's own position
    block,    // floor(i / size) == floor(j / size): each query sees only the keys of the same group of `size`
    strided,  // |i - j| < size or (i - j) mod size == 0 (Child et al. 2019, both patterns combined)
    linear    // all keys; pattern = phi(q) phi(k)^T / its row sum, phi = elu + 1 (Katharopoulos et al. 2020)
  };
  Rule rule = Rule::full;
  std::size_t size = 0;  // at least 1 for window, block and strided

  friend bool operator==(const AttentionKind&, const AttentionKind&) = default;
};

/// Parses "full", "linear", "window:W", "block:B" or "strided:S", where W, B and S are integers from 1 to
/// 4,294,967,295. Returns nullopt for anything else.
[[nodiscard]] std::optional<AttentionKind> parse_attention_kind(std::string_view text);
[[nodiscard]] std::string to_string(const AttentionKind& kind);

/// The syntax of parse_attention_kind, for help texts and error messages.
inline constexpr std::string_view kAttentionKinds = "full, window:W, block:B, strided:S, linear";

enum class NormKind { none, layer, rms };
/// The position of the norms N and N' of a layer. A is the attention or the MLP, and x the residual stream.
enum class NormPlace {
  none,    // x + A(x)
  pre,     // x + A(N(x))
  post,    // N(x + A(x))
  output,  // x + N(A(x))
  both,    // x + N'(A(N(x)))
  stream   // y + A(y) with y = N(x)
};
/// The position vectors that are added to the embeddings. `sinusoidal` alternates sines and cosines;
/// `sinusoidal_halves` has all sines, then all cosines.
enum class PositionKind { none, learned, sinusoidal, sinusoidal_halves };
/// The pairs of dimensions that are rotated together: (j, j + r/2), or (2j, 2j + 1). r is RotaryConfig::dims.
enum class RotaryPairing { half, interleaved };
enum class Activation { gelu_erf, gelu_tanh, silu, relu, relu_squared, tanh };

struct NormConfig {
  NormKind kind = NormKind::none;
  float eps = 0;
  bool gain = true;   // false: the gain is 1 and is not stored
  bool bias = false;  // false: the bias is 0 and is not stored
};

/// The elements of queries or keys that are normalised together, and the shape of the gains. For keys,
/// `heads` is the number of key/value heads.
enum class HeadNormSpan {
  shared,  // each head separately; all heads have the same gains [d_head]
  each,    // each head separately, with its own gains [heads, d_head]
  whole    // all heads together, with gains [heads * d_head]
};

/// ALiBi adds slope * j to the score of query i and key j. Positions j are counted from 0.
struct AlibiConfig {
  std::vector<float> slopes;    // [heads]
  bool counts_visible = false;  // j is the number of visible keys before the key; 0 for hidden keys
  bool from_last = false;       // j is minus the distance from the last key
  /// Slope, j and slope * j are rounded to bfloat16, and slope * j is multiplied by AttentionConfig::scale.
  bool rounded = false;
};

struct RotaryConfig {
  RotaryPairing pairing = RotaryPairing::half;
  std::size_t dims = 0;  // number r of rotated dimensions per head, at most d_head
  /// [r/2], after scaling. Computed in float32 like the original implementation, or read from the checkpoint.
  std::vector<float> inverse_frequency;
  std::vector<float> long_inverse_frequency;  // [r/2], for sequences longer than long_from; or empty
  std::size_t long_from = 0;
  float attention_factor = 1;  // multiplies cosines and sines
};

/// T5 position bias: a learned value per head and distance bucket is added to the scaled scores. Each small
/// distance has its own bucket. Larger distances share buckets on a logarithmic scale.
struct RelativeBuckets {
  std::size_t buckets = 0;
  std::size_t max_distance = 0;  // distances from this one on use the last bucket of their direction
  /// Half of the buckets are for keys after the query. If false, all keys after the query use bucket 0.
  bool bidirectional = false;
  std::size_t rows = 0;  // number of rows of the stored table, at least `buckets`
};

/// The tensors that a projection y = x W + b has.
struct LinearParts {
  bool weight = false;
  bool bias = false;
  /// Rank of a factorized weight W = A B with A [in, rank] and B [rank, out]; 0 if not factorized.
  std::size_t rank = 0;
};

/// Disentangled attention (DeBERTa): products of queries or keys with distance embeddings are added to the
/// scores. The distance i - j of query i and key j uses row clip(bucket(i - j) + span, 0, 2 span - 1) of a
/// table that all layers share. bucket(i - j) is i - j itself if `logarithmic` is false.
struct DisentangledConfig {
  std::size_t span = 0;              // half the number of rows of the table
  std::size_t max_distance = 0;      // the logarithmic scale ends at the distance max_distance - 1
  bool logarithmic = false;          // |i - j| above span / 2 share buckets on a logarithmic scale
  bool content_to_position = false;  // adds query i times the key of the distance i - j
  bool position_to_content = false;  // adds key j times the query of the distance i - j
  /// The projections that turn rows of the table into keys and queries. If a term above needs a projection
  /// that is absent, it uses the layer's projection of the tokens.
  LinearParts key, query;
  NormConfig norm;  // norm of the rows of the table
};

struct AttentionConfig {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t d_head = 0;
  std::size_t d_value = 0;  // 0: unknown, because the model has neither W_V nor W_O
  double scale = 0;         // q k^T is multiplied by this
  bool causal = false;
  AttentionKind kind;
  float clip = 0;      // queries, keys and values are clamped to [-clip, clip]; 0: no clamping
  float soft_cap = 0;  // c: scores s become c tanh(s / c) before position bias and mask; 0: no cap
  /// Softmax has one more learned score per head, so the rows of a pattern sum to less than 1.
  bool sinks = false;
  std::shared_ptr<const AlibiConfig> alibi;  // null if the model has no ALiBi
  NormConfig head_norm;                      // norm of queries and keys, applied before rotation
  HeadNormSpan head_norm_span = HeadNormSpan::shared;
  /// Null if the layer has no rotary positions. Several layers may share the object.
  std::shared_ptr<const RotaryConfig> rotary;
  std::shared_ptr<const RelativeBuckets> relative_buckets;  // null if there are none
  /// Null if there is none; `scale` also multiplies its terms.
  std::shared_ptr<const DisentangledConfig> disentangled;
  LinearParts query, key, value, output;  // if the key has no weight, the weight of the query is used
  std::vector<std::size_t> head_slices;   // [heads] if heads are tied (see below); otherwise empty

  /// If head_slices is not empty (tied heads), W_Q, W_K and W_V each have kv_heads slices, and head i uses
  /// slice head_slices[i] of all three. Several heads may use the same slice. W_O still has one slice per
  /// head. If head_slices is empty, every head has its own slice of W_Q, and each group of heads / kv_heads
  /// consecutive heads shares one key/value head.
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

/// A mixture of experts: for each token, a router chooses `per_token` of the `count` MLPs.
struct ExpertsConfig {
  std::size_t count = 0;  // 0: the layer has a single MLP
  std::size_t per_token = 0;
  /// Softmax over the scores of the chosen experts; otherwise over the scores of all experts.
  bool softmax_after_topk = false;
  bool renormalised = false;  // the weights of the chosen experts are divided by their sum
  bool router_bias = false;
  /// If not 0, experts compute down((up + 1) g sigmoid(alpha g)), where g is the gate; `up` is clamped to
  /// [-limit, limit] and g to at most limit.
  float limit = 0;
  double alpha = 1;
  /// Width of the expert that every token uses; 0 if there is none. The output of this expert is multiplied
  /// by the sigmoid of a score that is computed for each token.
  std::size_t shared_width = 0;
};

/// A convolution over the embeddings. It changes the output x of a layer to N(x + act(conv(embeddings))).
struct ConvolutionConfig {
  /// Odd; uses (kernel - 1) / 2 positions before and after each position, with zero padding.
  std::size_t kernel = 0;
  std::size_t groups = 1;
  Activation activation = Activation::tanh;
};

/// One attention and its MLP, if any. A layer of the decoder in an encoder-decoder model is two of these:
/// self-attention without an MLP, then cross-attention with an MLP.
struct LayerConfig {
  Component component = Component::none;
  std::size_t number = 0;  // index of the layer within its component
  AttentionConfig attention;
  MlpConfig mlp;
  ExpertsConfig experts;  // the experts among which the router chooses have the width mlp.width
  NormConfig norm;
  NormPlace place = NormPlace::pre;
  bool parallel = false;          // x + A(N(x)) + M(N'(x)), where M is the MLP; `place` is pre
  bool shared_norm = false;       // only if parallel: N' equals N
  bool attention_normed = true;   // false: the attention has no norm before it
  float residual_multiplier = 1;  // outputs of attention and MLP are multiplied by this
  std::shared_ptr<const ConvolutionConfig> convolution;  // null if there is none
  std::size_t stored_as = 0;                             // number of the layer, or its group, in tensor names

  /// Identifies the stored weights. Layers with equal keys share their weights.
  struct Key {
    Component component = Component::none;
    std::size_t number = 0;
    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs here
  };
  [[nodiscard]] Key stored() const { return {component, stored_as}; }

  [[nodiscard]] NormConfig attention_norm() const { return attention_normed ? norm : NormConfig{}; }
};

/// Token dropout of ESM: the embeddings of `token` are set to zero. The other embeddings are multiplied by
/// kept / (1 - s), where s is the number of tokens that equal `token` divided by the number of visible
/// tokens.
struct TokenDropout {
  std::int64_t token = 0;
  double kept = 1;
};

struct EmbeddingConfig {
  std::size_t vocabulary = 0;  // 0: inputs are embeddings or images
  std::size_t width = 0;       // width of the token embeddings
  PositionKind position = PositionKind::none;
  bool positions_last = false;      // positions are added after norm and projection; otherwise before them
  std::size_t position_offset = 0;  // row of the position table for position 0
  /// If present, the id of the padding token. As in RoBERTa, a padding token uses row `padding` of the
  /// position table, and the positions of the other tokens do not count it.
  std::optional<std::size_t> padding;
  bool counts_visible = false;  // positions count only visible tokens; hidden tokens have position -1
  double multiplier = 1;        // token embeddings are multiplied by this
  std::size_t token_types = 0;
  std::optional<TokenDropout> dropout;
  NormConfig norm;               // applied to the sum of the embeddings
  LinearParts projection;        // from `width` to d_model
  bool projected_first = false;  // the projection is applied before the norm
  bool zero_hidden = false;      // embeddings of tokens that the key mask hides are set to zero
  PatchGrid pixels;              // if present, inputs are images: a class token, then one token per patch
};

/// The decoder of an encoder-decoder model, without its layers.
struct DecoderConfig {
  EmbeddingConfig embedding;                // embedding of the target sequence
  bool shares_tokens = false;               // the target uses the token table of the input
  NormConfig encoder_norm;                  // norm of the encoder's output
  std::optional<std::int64_t> start_token;  // inserted before the tokens of a target text
};

/// The output head, which computes logits over the vocabulary.
struct HeadConfig {
  bool present = false;
  bool tied = false;  // the output matrix is the token embedding table
  bool bias = false;  // bias of the output matrix
  /// Masked-token head: a dense layer, an activation and a norm come before the output matrix.
  bool transform = false;
  bool transform_bias = true;
  Activation activation = Activation::gelu_erf;
  NormConfig norm;
  LinearParts projection;  // from d_model to the input width of the output matrix
  float multiplier = 1;    // logits are multiplied by this
  float soft_cap = 0;      // c: logits l become c tanh(l / c); 0: no cap
};

struct ModelConfig {
  std::string family;
  std::size_t d_model = 0;
  std::size_t d_key_input = 0;    // input width of W_K; can differ from d_model in the family `attention`
  std::size_t d_value_input = 0;  // input width of W_V
  std::size_t d_output = 0;       // width of a layer's attention output; 0 if the model has no W_V
  std::optional<std::size_t> max_positions;  // largest number of tokens of a sequence; nullopt if unlimited
  EmbeddingConfig embedding;
  /// In encoder-decoder models: the layers of the encoder, then two entries per layer of the decoder,
  /// self-attention and cross-attention.
  std::vector<LayerConfig> layers;
  std::optional<DecoderConfig> decoder;
  NormConfig final_norm;  // after the last layer
  HeadConfig head;
  std::vector<std::string> vocabulary;    // tokens listed in the configuration (family `attention`)
  std::vector<std::int64_t> special_ids;  // configured ids of bos, eos, pad, cls and sep

  [[nodiscard]] std::size_t layers_of(Component component) const;

  /// Returns true if the model predicts each next token (of the target, if there is a decoder); otherwise it
  /// predicts masked tokens.
  [[nodiscard]] bool predicts_next_token() const { return decoder || layers.back().attention.causal; }
  /// Returns the embedding whose vocabulary the logits refer to.
  [[nodiscard]] const EmbeddingConfig& output_embedding() const {
    return decoder ? decoder->embedding : embedding;
  }
  /// Returns the input width of the output matrix of the head.
  [[nodiscard]] std::size_t head_width() const {
    return head.transform || head.tied || head.projection.weight ? output_embedding().width : d_model;
  }

  /// Returns true if any layer has rotary positions, ALiBi, relative buckets or disentangled attention. Then
  /// the scores also depend on the positions of query and key.
  [[nodiscard]] bool position_in_scores() const;
};

/// A head, identified by the index of its layer in ModelConfig::layers and its index in the layer.
struct HeadId {
  std::size_t layer = 0;
  std::size_t head = 0;
  auto operator<=>(const HeadId&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs here
};

/// Returns the name of a head: "L.H", or in encoder-decoder models "enc.L.H", "dec.L.H" or "cross.L.H", where
/// L is the layer's index within its component.
[[nodiscard]] std::string head_name(const ModelConfig& config, HeadId head);
/// Returns the name of a layer, with which head_name() begins: "L", "enc.L", "dec.L" or "cross.L".
[[nodiscard]] std::string layer_name(const ModelConfig& config, std::size_t layer);

}  // namespace attnctl::model

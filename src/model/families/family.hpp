#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/config/config.hpp"

namespace attnctl {

struct ModelSource;

// A model family as data: how its configurations and checkpoints name what the forward pass needs. Tensor
// names may contain `{}` for the layer (or layer group) number. New behavior for a family is one enumerator
// or field here, and one case where it is resolved (config/resolve_*.cpp) or bound (binding/).

/// A size in the configuration: the first of `names` that is present, otherwise the default.
struct SizeKey {
  std::vector<std::string> names = {};
  std::optional<std::size_t> default_value = {};  // nullopt: required, or derived from other sizes
};

/// A number in the configuration, or a value derived from it by `rule`. The default is used unchanged.
struct NumberKey {
  std::vector<std::string> names = {};
  double default_value = 0;
  enum class Rule { plain, inverse, inverse_root } rule = Rule::plain;
  bool null_is_zero = false;  // a null means 0; otherwise it counts as missing
};

/// A text in the configuration, otherwise the default.
struct TextKey {
  std::vector<std::string> names = {};
  std::string default_value = {};
};

/// Configuration keys of sizes and properties. Key `a/b` is key b of the object a.
struct ConfigKeys {
  SizeKey d_model = {}, layers = {}, heads = {};
  SizeKey kv_heads = {};   // default: heads
  SizeKey d_head = {};     // default: d_model / heads
  SizeKey mlp_width = {};  // default: 4 d_model
  SizeKey embedding = {};  // default: d_model
  SizeKey vocabulary = {}, max_positions = {}, token_types = {}, groups = {};
  SizeKey padding = {};  // padding id: positions start after its table row, and padding tokens have none
  SizeKey channels = {}, image = {}, patch = {};  // image inputs; the last two may be [height, width]
  NumberKey norm_eps = {};
  TextKey activation = {};
  std::string inverse_layer_if = {};  // flag: scores of layer i are divided by i + 1
  std::string causal_if = {};         // flag: causal attention
  NumberKey scale = {};               // factor of scores; 0: 1 / sqrt(d_head)
  NumberKey soft_cap = {}, clip = {};
  NumberKey embedding_multiplier = {.default_value = 1};
  NumberKey residual_multiplier = {.default_value = 1};
  NumberKey logit_multiplier = {.default_value = 1};
  NumberKey logit_soft_cap = {};
  SizeKey experts = {}, experts_per_token = {}, expert_width = {}, shared_width = {};
  SizeKey sparse_step = {};  // layer i has experts if i + 1 is a multiple of this; no names: all layers do
  std::string dense_layers = {};  // list of layers without experts
  NumberKey expert_limit = {}, expert_alpha = {.default_value = 1};
};

/// Rotary parameters of sliding-window layers if they differ. /rope_parameters then holds an object for
/// full_attention and one for sliding_attention.
struct SlidingRotarySpec {
  std::string theta_name = {};  // in old configurations
  double theta = 10000;
  bool scaled = false;  // the old key /rope_scaling applies to these layers too
};

/// Rotary position. Families share all configuration keys except those named here.
struct RotarySpec {
  RotaryPairing pairing = RotaryPairing::half;
  double theta = 10000;  // default
  double fraction = 1;   // default fraction of the head width that is rotated
  std::vector<std::string> theta_names = {"rope_theta"};
  std::vector<std::string> fraction_names = {"partial_rotary_factor"};
  SizeKey dims = {};                       // number of rotated dimensions; no names: from the fraction
  std::size_t default_original = 0;        // of original_max_position_embeddings; 0: the longest sequence
  std::string nope_layers = {};            // list with 0 for each layer without rotary position (NoPE)
  SizeKey nope_interval = {};              // without that list: every nope_interval-th layer has none
  nlohmann::ordered_json parameters = {};  // default of rope_parameters
  bool yarn_is_longrope = false;           // old configurations call longrope "yarn"
  std::vector<std::string> stored = {};    // tensors with inverse frequencies, which replace computed ones
  std::optional<SlidingRotarySpec> sliding = {};
};

/// Which layers have a sliding window, and its width.
struct WindowKeys {
  std::string size = {};         // null disables windows
  std::size_t default_size = 0;  // 0: no windows
  std::string enabled = {};      // flag that must be true for windows
  std::string layer_types = {};  // list of full_attention and sliding_attention
  std::string type_runs = {};    // list of [[type, ...], times] with types global and local
  // The rules below apply without such a list.
  std::string first = {};  // first layer with a window; no key: all layers
  std::size_t default_first = 0;
  bool windows_before_first = false;  // `first` is the first layer without a window instead
  SizeKey period = {};                // one layer in each period has full attention; no default: no such rule
  bool full_first = false;            // that is the first layer of the period; otherwise the last
  bool nope_layers_only = false;      // only layers without rotary position have a window
  bool two_sided = false;             // `size` counts keys on both sides: |i - j| <= size / 2
};

/// A configuration key that must have one of these values if present.
struct Requirement {
  std::string key = {};
  std::vector<nlohmann::ordered_json> values = {};
};

/// The axes of a stored weight.
enum class Axes {
  out_in,         // [out, in], as in torch.nn.Linear
  in_out,         // [in, out], as in Conv1D
  in_out_or_head  // [in, out], or rank 3: [heads, in, k], and [heads, v, out] for an output projection
};

/// How several projections share the outputs of one tensor.
enum class Packing {
  whole,            // one projection per tensor
  query_key_value,  // [q; k; v]
  by_head,          // q, k, v of head 0, then of head 1, ...
  by_key_head,      // for each key/value head: the queries that share it, then k, v
  in_four_blocks,   // four times: q, v, k of a quarter of the heads
  gate_up,          // [gate; up]
  gate_up_by_turns  // gate and up of unit 0, then of unit 1, ...
};

/// One way to store a tensor; the name follows the family's and the layer's prefix.
struct StoredTensor {
  std::string name = {};
  Axes axes = Axes::out_in;
  Packing packing = Packing::whole;
};

/// Whether a tensor with names exists.
struct Presence {
  enum class Rule {
    always,
    stored,        // if the checkpoint holds it
    configured,    // if the flag `key` of the configuration is true
    width_differs  // if the tables and the model have different widths (embedding and head projections)
  } rule = Rule::always;
  std::string key = {};
  bool default_value = false;  // if the configuration has no such key
};

/// The two tensors of a factorized weight W = A B with A [in, rank] and B [rank, out].
struct FactorSpec {
  std::optional<StoredTensor> first = {}, last = {};  // both or neither
};

/// y = x W + b. The first stored alternative is used; without names the tensor does not exist.
struct LinearSpec {
  std::vector<StoredTensor> weight = {};
  std::vector<StoredTensor> bias = {};
  Presence weight_presence = {};
  Presence bias_presence = {};
  FactorSpec factors = {};  // alternative to `weight`
};

/// Names of a norm's gain and bias. A name with `{head}` means one tensor per head.
struct NormSpec {
  std::vector<std::string> gain = {};
  std::vector<std::string> bias = {};
  bool bare = false;  // the norm exists without tensors

  [[nodiscard]] bool present() const { return bare || !gain.empty(); }
};

/// Experts and their router. Experts are stacked as [experts, ...], or stored one by one under names with
/// `{expert}`.
struct ExpertsSpec {
  LinearSpec router = {};
  LinearSpec up = {}, gate = {}, down = {};
  LinearSpec shared_up = {}, shared_gate = {}, shared_down = {}, shared_factor = {};
};

/// The tensors of a layer: an attention and the MLP after it.
struct LayerSpec {
  LinearSpec query = {}, key = {}, value = {}, output = {};
  NormSpec attention_norm = {}, mlp_norm = {};
  NormSpec attention_output_norm = {}, mlp_output_norm = {};  // NormPlace::both
  NormSpec query_norm = {}, key_norm = {};
  bool first_attention_normed = true;  // false: layer 0 has no attention_norm
  std::vector<std::string> sinks = {};
  LinearSpec up = {}, gate = {}, down = {};
  std::optional<ExpertsSpec> experts = {};
};

/// RelativeBuckets of a stack.
struct RelativeBucketSpec {
  std::vector<std::string> table = {};  // [rows, heads]; after the family's prefix only
  SizeKey buckets = {}, max_distance = {};
  SizeKey rows = {};  // default: buckets
  bool bidirectional = true;
};

/// DisentangledConfig of a stack. /relative_attention, /pos_att_type and /max_relative_positions say which
/// terms exist and how far distances reach.
struct DisentangledSpec {
  std::vector<std::string> table = {};  // after the family's prefix only
  NormSpec norm = {};                   // used if /norm_rel_ebd says so
  LinearSpec key = {}, query = {};      // projections of the table, per layer
  bool buckets = false;                 // /position_buckets may make distances logarithmic
  bool may_share_content = false;       // /share_att_key may replace them by the content projections
};

/// A convolution over the embeddings, if /conv_kernel_size is above 0; after the family's prefix only.
struct ConvolutionSpec {
  LinearSpec kernel = {};  // weight [d, d / groups, kernel]
  NormSpec norm = {};
};

/// The number in a layer's tensor names: the layer, or the group int(layer / (layers / groups)) as in ALBERT.
enum class Numbering { by_layer, by_group };

/// A stack of layers with the same tensors. Differences between layers are in the configuration.
struct StackSpec {
  std::vector<std::string> prefixes = {};  // alternatives, such as "encoder.layer.{}."
  Numbering numbering = Numbering::by_layer;
  LayerSpec layer = {};
  std::optional<RelativeBucketSpec> relative = {};
  std::optional<DisentangledSpec> disentangled = {};
  std::optional<ConvolutionSpec> convolution = {};  // after the first layer
};

/// TokenDropout, if the flag `enabled` is true.
struct TokenDropoutSpec {
  std::string enabled = {};
  std::string token = {};  // key of the token's id
  double kept = 1;
};

/// The tables before the first layer, after the family's prefix. A sinusoidal position table is read if
/// stored.
struct EmbeddingSpec {
  std::vector<std::string> token = {}, position = {}, token_type = {};
  std::vector<std::string> class_token = {};  // families that read images; their tables are [1, rows, width]
  LinearSpec patches = {};                    // convolution [d, channels, height, width]
  NormSpec norm = {};
  LinearSpec projection = {};  // from the tables' width to d_model
};

/// The output head, with names that take no prefix. With a transform (dense, activation, norm) it is a
/// masked-token head, present if stored. The output matrix is `decoder` if stored, otherwise the token
/// embedding.
struct HeadSpec {
  LinearSpec transform = {};
  TextKey activation = {};  // of the transform; without a default: that of the layers
  NormSpec transform_norm = {};
  LinearSpec projection = {};  // from d_model to the input width of the decoder
  LinearSpec decoder = {};
  bool tied_by_default = true;  // without weights and without /tie_word_embeddings
};

/// Where sizes come from. `tensors`: the bare attention mechanism, which configures only heads and options.
enum class SizesFrom { config, tensors };

/// ALiBi slopes if the number of heads is not a power of 2.
enum class AlibiSlopes {
  none,
  nearest_power,  // slopes of the next lower power of 2, then every second one of twice that
  next_power      // slopes of the next higher power of 2: every second one, then the rest
};

struct FamilySpec;

/// A change of the row that applies if a configuration key has a value.
struct Variant {
  std::string key = {};
  nlohmann::ordered_json value = {};
  nlohmann::ordered_json default_value = {};  // of a missing key
  void (*apply)(FamilySpec& row) = nullptr;
};

/// A decoder that reads an encoder (FamilySpec::stack). Each layer has two attentions; norm, activation and
/// similar properties are the encoder's.
struct DecoderSpec {
  std::string prefix = {};                          // of a layer, such as "decoder.layers.{}."
  LayerSpec self = {};                              // causal self-attention without an MLP
  LayerSpec cross = {};                             // attention to the encoder's output, and the MLP
  std::optional<RelativeBucketSpec> relative = {};  // for `self`
  EmbeddingSpec embedding = {};
  NormSpec final_norm = {};  // FamilySpec::final_norm is the encoder's
  SizeKey layers = {}, heads = {}, mlp_width = {};
  SizeKey vocabulary = {};             // of the target, if the flag below is false
  std::string shared_vocabulary = {};  // flag with default true: both sides use the source's vocabulary
  std::vector<std::string> start_token = {"decoder_start_token_id"};
};

struct FamilySpec {
  std::string name = {};                   // model_type
  std::vector<std::string> prefixes = {};  // alternatives, for all tensors except the head; "" without a head
  StackSpec stack = {};                    // the encoder, if there is a decoder
  std::optional<DecoderSpec> decoder = {};
  EmbeddingSpec embedding = {};
  NormSpec final_norm = {};
  std::optional<HeadSpec> head = {};

  SizesFrom sizes = SizesFrom::config;
  ConfigKeys keys = {};
  NormKind norm = NormKind::none;
  NormPlace place = NormPlace::none;
  float gain_offset = 0;         // added to stored gains of all norms
  bool parallel = false;         // attention and MLP read the same stream
  bool scale_embedding = false;  // token embeddings are multiplied by sqrt(d_model)
  // The properties that no configuration key gives; resolving sets the rest.
  EmbeddingConfig embedding_config = {};  // its counts_visible is also that of ALiBi
  AlibiConfig alibi_config = {};
  ExpertsConfig experts_config = {};
  std::optional<TokenDropoutSpec> token_dropout = {};
  AlibiSlopes alibi = AlibiSlopes::none;
  HeadNormSpan head_norm_span = HeadNormSpan::shared;
  std::optional<RotarySpec> rotary = {};
  std::optional<WindowKeys> window = {};
  bool causal = false;
  std::vector<Requirement> requirements = {};
  std::vector<std::string> rejected_tensors = {};  // per layer: mechanisms that are not supported
  bool one_name_each = false;                      // an error if a file holds two alternatives of a tensor
  std::vector<Variant> variants = {};              // applied in order
};

/// Returns all families, sorted by name.
[[nodiscard]] std::span<const FamilySpec> families();

/// Returns the family named by /model_type (or by /text_config/model_type), with the variants that apply to
/// this configuration. `file` names the configuration in errors. Throws Error(bad_input) with the supported
/// names.
[[nodiscard]] FamilySpec family_of(const std::string& file, const nlohmann::ordered_json& config);

/// Returns true for buffers in old checkpoints that no forward pass needs: position ids, causal masks, rotary
/// frequencies.
[[nodiscard]] bool is_known_buffer(std::string_view tensor_name);

/// Returns the resolved hyperparameters. `source.weights` may be null if the family takes its sizes from the
/// configuration; properties that depend on stored tensors then have the family's usual values. Throws
/// Error(bad_input) with the JSON pointer, or Error(limit) for excessive sizes.
[[nodiscard]] ModelConfig resolve_config(const ModelSource& source);
/// Returns the same for a row that was found, and possibly changed, before.
[[nodiscard]] ModelConfig resolve_config(const FamilySpec& row, const ModelSource& source);

}  // namespace attnctl

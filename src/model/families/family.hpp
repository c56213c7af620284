#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.hpp"
#include "model/config/config.hpp"

namespace attnctl::model {

// A model family as data: the names that its configurations and checkpoints use. The prefix of a layer's
// tensors may contain `{}` for the number of the layer (or of the group of layers). To support a new property
// of a family, add a field or an enumerator here, and handle it where it is resolved (config/resolve*.cpp) or
// bound (binding/).

/// A size in the configuration: the value of the first name that is present, otherwise the default.
struct SizeKey {
  std::vector<std::string> names = {};
  /// If nullopt, the key is required, or the size is derived from other sizes, or the family has no such
  /// property.
  std::optional<std::size_t> default_value = {};
};

/// A number in the configuration, changed according to `conversion`. The default is used unchanged.
struct NumberKey {
  std::vector<std::string> names = {};
  double default_value = 0;
  enum class Conversion { plain, inverse, inverse_root } conversion = Conversion::plain;
  bool null_is_zero = false;  // true: null means 0; false: null counts as missing
};

struct TextKey {
  std::vector<std::string> names = {};
  std::string default_value = {};
};

/// The configuration keys of sizes and properties. The name `a/b` means key b of the object a.
struct ConfigKeys {
  SizeKey d_model = {}, layers = {}, heads = {};
  SizeKey kv_heads = {};   // if missing and without default_value: heads
  SizeKey d_head = {};     // if missing and without default_value: d_model / heads
  SizeKey mlp_width = {};  // if missing and without default_value: 4 d_model
  SizeKey embedding = {};  // if missing and without default_value: d_model
  SizeKey vocabulary = {}, max_positions = {}, token_types = {};
  /// The number of groups of layers with the same weights, as in ALBERT. The number in the tensor names is
  /// int(layer index / (number of layers / number of groups)), or the layer index if the key has no default.
  SizeKey groups = {};
  /// The id of the padding token. Positions start after this row of the position table; padding tokens use
  /// the row itself.
  SizeKey padding = {};
  SizeKey channels = {}, image = {}, patch = {};  // image inputs; the last two may be lists [height, width]
  NumberKey norm_eps = {};
  TextKey activation = {};
  std::string inverse_layer_if = {};  // flag: divide the scores of layer i (from 0) by i + 1
  std::string causal_if = {};         // flag: make the attention causal
  NumberKey scale = {};               // scores are multiplied by this; 0 means 1 / sqrt(d_head)
  NumberKey soft_cap = {}, clip = {};
  NumberKey embedding_multiplier = {.default_value = 1};
  NumberKey residual_multiplier = {.default_value = 1};
  NumberKey logit_multiplier = {.default_value = 1};
  NumberKey logit_soft_cap = {};
  SizeKey experts = {}, experts_per_token = {}, expert_width = {}, shared_width = {};
  /// Layer i (from 0) has experts only if i + 1 is a multiple of this. Without names, this is 1.
  SizeKey sparse_step = {};
  std::string dense_layers = {};  // key of the list of layers without experts
  NumberKey expert_limit = {}, expert_alpha = {.default_value = 1};
};

enum class Axes {
  out_in,         // [out, in], as stored by torch.nn.Linear
  in_out,         // [in, out], as stored by the class Conv1D of transformers
  in_out_or_head  // [in, out]; or per head: [heads, in, k], or [heads, v, out] for an output projection
};

/// The order of several projections that are stored in one tensor, along its outputs.
enum class Packing {
  whole,            // the tensor holds one projection
  query_key_value,  // all of q, then k, then v
  by_head,          // q, k and v of head 0, then of head 1, ...
  by_key_head,      // for each key/value head: all queries that share it, then k and v
  in_four_blocks,   // four parts, each with q, v and k of a quarter of the heads
  gate_up,          // all of gate, then up
  gate_up_by_turns  // the outputs of gate and up alternate
};

/// A possible name and layout of a stored tensor. The name does not include the prefixes of the family and of
/// the layer.
struct StoredTensor {
  template <std::convertible_to<std::string> Name>
  StoredTensor(Name of, Axes order = Axes::out_in, Packing parts = Packing::whole)
      : name(std::move(of)), axes(order), packing(parts) {}
  bool operator==(const StoredTensor&) const = default;

  std::string name;
  Axes axes;
  Packing packing;
};

/// The rotary parameters of layers with a sliding window, if they differ from those of other layers. In new
/// configurations, /rope_parameters contains one object for full_attention and one for sliding_attention.
struct SlidingRotarySpec {
  std::string theta_name = {};  // key of theta in old configurations
  double theta = 10000;
  bool scaled = false;  // the old key /rope_scaling also applies to these layers
};

/// The rotary positions of a family. The configuration keys that are not fields here are the same for all
/// families.
struct RotarySpec {
  RotaryPairing pairing = RotaryPairing::half;
  double theta = 10000;  // default
  double fraction = 1;   // default fraction of each head's dimensions that is rotated
  std::vector<std::string> theta_names = {"rope_theta"};
  std::vector<std::string> fraction_names = {"partial_rotary_factor"};
  SizeKey dims = {};  // number of rotated dimensions; without names, computed from the fraction
  /// Default of original_max_position_embeddings; 0: the largest number of positions.
  std::size_t default_original = 0;
  std::string nope_layers = {};  // key of a list with 0 for each layer without rotary positions
  /// If nope_layers is missing, every nope_interval-th layer has no rotary positions.
  SizeKey nope_interval = {};
  nlohmann::ordered_json parameters = {};  // default value of /rope_parameters
  bool yarn_is_longrope = false;           // the type "yarn" means longrope, as in old configurations
  /// Possible names of a tensor with inverse frequencies, which is used instead of computed ones.
  std::vector<StoredTensor> stored = {};
  std::optional<SlidingRotarySpec> sliding = {};
};

/// The layers that have a sliding window, and the width of the window.
struct WindowKeys {
  std::string size = {};         // key of the width; if its value is null, no layer may have a window
  std::size_t default_size = 0;  // width if the key is missing; 0: no windows
  std::string enabled = {};      // key of a flag that must be true for windows; "": no flag
  std::string layer_types = {};  // list with full_attention or sliding_attention for each layer
  std::string type_runs = {};    // list of [[type, ...], times], where a type is global or local
  // The fields from `first` to `nope_layers_only` are used if the configuration has neither of these lists.
  std::string first = {};  // key of the index of a layer; "": all layers may have a window
  std::size_t default_first = 0;
  /// If true, only layers before `first` may have a window; otherwise only the layer `first` and later ones.
  bool windows_before_first = false;
  /// Number of layers of a period, in which one layer has full attention. Families without periods have no
  /// default here.
  SizeKey period = {};
  bool full_first = false;  // the first layer of each period has full attention; otherwise the last layer
  bool nope_layers_only = false;  // only layers without rotary positions have a window
  bool two_sided = false;         // `size` counts the keys on both sides of the query: |i - j| <= size / 2
};

/// A configuration key that, if present, must have one of these values.
struct Requirement {
  std::string key = {};
  std::vector<nlohmann::ordered_json> values = {};
};

/// A projection y = x W + b. The names of a tensor are alternatives. A tensor without names does not exist.
struct LinearSpec {
  std::vector<StoredTensor> weight = {}, bias = {};
  bool if_width_differs = false;  // exists only if the embedding tables and the model have different widths
  std::string bias_if = {};       // key of a flag that is true if the bias exists; "": no flag
  bool bias_default = false;      // value of the flag if the configuration does not contain it
  /// Stored instead of `weight` if the weight is factorized, W = A B: A [in, rank], then B [rank, out].
  std::vector<StoredTensor> factors = {};
};

/// The tensor names of a norm's gain and bias. A name with `{head}` means one tensor per head.
struct NormSpec {
  std::vector<StoredTensor> gain = {};
  std::vector<StoredTensor> bias = {};
  bool bare = false;  // the norm exists but has no tensors

  [[nodiscard]] bool present() const { return bare || !gain.empty(); }
};

struct MlpSpec {
  LinearSpec up = {}, down = {}, gate = {};
};

/// The experts of a layer and their router. A projection of the experts is stored in one tensor [experts,
/// ...], or in one tensor per expert with `{expert}` in the name.
struct ExpertsSpec {
  LinearSpec router = {};
  MlpSpec each = {};              // of each expert
  MlpSpec shared = {};            // of the expert that every token uses
  LinearSpec shared_factor = {};  // the sigmoid of this projection multiplies the output of `shared`
};

/// The tensors of a layer: one attention and its MLP or experts.
struct LayerSpec {
  LinearSpec query = {}, key = {}, value = {}, output = {};
  NormSpec attention_norm = {}, mlp_norm = {};
  NormSpec attention_output_norm = {}, mlp_output_norm = {};  // only for NormPlace::both
  NormSpec query_norm = {}, key_norm = {};
  bool first_attention_normed = true;  // false: layer 0 has no attention_norm
  std::vector<StoredTensor> sinks = {};
  MlpSpec mlp = {};
  std::optional<ExpertsSpec> experts = {};
};

struct RelativeBucketSpec {
  std::vector<StoredTensor> table = {};  // [rows, heads]; names without the family's prefix
  SizeKey buckets = {}, max_distance = {};
  SizeKey rows = {};  // without names: the number of buckets
  bool bidirectional = true;
};

/// The tensors of disentangled attention (see DisentangledConfig), and the properties of it that differ
/// between families.
struct DisentangledSpec {
  std::vector<StoredTensor> table = {};  // names without the family's prefix
  NormSpec norm = {};                    // used if /norm_rel_ebd requires it
  LinearSpec key = {}, query = {};       // projections of the table; each layer has its own
  /// /position_buckets may request a logarithmic scale of distances, and /share_att_key may replace `key` and
  /// `query` by the projections of the tokens.
  bool has_options = false;
};

/// A convolution over the embeddings, which exists if /conv_kernel_size is above 0. In the checkpoint, the
/// names follow the family's prefix; a layer's prefix is not added.
struct ConvolutionSpec {
  LinearSpec kernel = {};  // weight [d, d / groups, kernel]
  NormSpec norm = {};
};

/// The tensors before the first layer. Names follow the family's prefix. A stored position table is used
/// instead of positions of the kind PositionKind::sinusoidal_halves.
struct EmbeddingSpec {
  std::vector<StoredTensor> token = {}, position = {}, token_type = {};
  /// Only in families that read images. There, this table and the position table are [1, rows, width].
  std::vector<StoredTensor> class_token = {};
  LinearSpec patches = {};  // a convolution [d, channels, height and width of a patch]
  NormSpec norm = {};
  LinearSpec projection = {};  // from the width of the tables to d_model
};

/// The output head. Names have no prefix, except in `projection`. A head with a transform (dense layer,
/// activation, norm) is a masked-token head and exists only if it is stored. The output matrix is `decoder`
/// if stored, otherwise the token embedding table. The head is tied if `decoder` is not stored or has the
/// values of that table.
struct HeadSpec {
  LinearSpec transform = {};
  TextKey activation = {};  // activation of the transform; without a default, the activation of the layers
  NormSpec transform_norm = {};
  LinearSpec projection = {};  // from d_model to the input width of `decoder`
  LinearSpec decoder = {};
  bool bias_if_stored = false;  // the bias of `decoder` exists if the checkpoint contains it
  /// Without weights (only a configuration): whether the head is tied if /tie_word_embeddings is missing.
  bool tied_by_default = true;
};

struct FamilySpec;

/// A change of a FamilySpec that applies if the configuration key `key` has the value `value`.
struct Variant {
  std::string key = {};
  nlohmann::ordered_json value = {};
  nlohmann::ordered_json default_value = {};  // the value that a missing key has
  void (*apply)(FamilySpec& row) = nullptr;
};

/// The decoder of an encoder-decoder model. Each of its layers has two attentions. The kind of norm, the
/// activation and other properties that have no field here are the same as in the encoder.
struct DecoderSpec {
  std::string prefix = {};                          // prefix of a layer, for example "decoder.layers.{}."
  LayerSpec self = {};                              // the causal self-attention, which has no MLP
  LayerSpec cross = {};                             // attention to the encoder's output, and the MLP
  std::optional<RelativeBucketSpec> relative = {};  // bias of the self-attention
  EmbeddingSpec embedding = {};
  NormSpec final_norm = {};  // FamilySpec::final_norm is the norm of the encoder
  SizeKey layers = {}, heads = {}, mlp_width = {};
  SizeKey vocabulary = {};             // the target's vocabulary, used if the flag below is false
  std::string shared_vocabulary = {};  // flag, default true: the target uses the vocabulary of the input
};

struct FamilySpec {
  std::string name = {};  // model_type in the configuration
  /// Possible prefixes of tensor names, except those of the head (see HeadSpec). "" is usually the prefix in
  /// files that were saved without the head.
  std::vector<std::string> prefixes = {};
  // The layers; in encoder-decoder models, those of the encoder.
  std::vector<std::string> layer_prefixes = {};  // alternatives, for example "encoder.layer.{}."
  LayerSpec layer = {};
  std::optional<RelativeBucketSpec> relative = {};
  std::optional<DisentangledSpec> disentangled = {};
  std::optional<ConvolutionSpec> convolution = {};  // applied after the first layer
  std::optional<DecoderSpec> decoder = {};
  EmbeddingSpec embedding = {};
  NormSpec final_norm = {};
  std::optional<HeadSpec> head = {};

  /// For attention layers without norms and MLPs (family `attention`): the widths are read from the shapes of
  /// tensors, and a file must not contain two of the alternative names of a tensor.
  bool sizes_from_tensors = false;
  ConfigKeys keys = {};
  NormKind norm = NormKind::layer;
  NormPlace place = NormPlace::pre;
  float gain_offset = 0;         // added to the stored gains of all norms
  bool parallel = false;         // attention and MLP read the same residual stream
  bool scale_embedding = false;  // token embeddings are multiplied by sqrt(d_model)
  // The fields of the next three structs that the family and its variants determine. resolve_config() sets
  // the other fields.
  EmbeddingConfig embedding_config = {};  // its counts_visible also applies to ALiBi
  std::optional<AlibiConfig> alibi = {};  // nullopt if the model has no ALiBi
  ExpertsConfig experts_config = {};
  HeadNormSpan head_norm_span = HeadNormSpan::shared;
  std::optional<RotarySpec> rotary = {};
  std::optional<WindowKeys> window = {};
  bool causal = false;
  std::vector<Requirement> requirements = {};
  std::vector<StoredTensor> rejected_tensors = {};  // names in a layer; a checkpoint with one is rejected
  std::vector<Variant> variants = {};               // applied in order
};

[[nodiscard]] std::span<const FamilySpec> families();  // sorted by name

/// Returns the family that /text_config/model_type names, or /model_type if there is no /text_config, with
/// the variants that apply to the configuration. `file` is the name of the configuration file in errors.
/// Throws Error(bad_input) with the supported names if the family is unknown.
[[nodiscard]] FamilySpec family_of(const std::string& file, const nlohmann::ordered_json& config);

/// Returns true if the name is that of a tensor which is not trained: position ids, causal masks, rotary
/// frequencies.
[[nodiscard]] bool is_known_buffer(std::string_view tensor_name);

/// Returns the hyperparameters of a model of the family `row`. `source.weights` may be null unless the family
/// has sizes_from_tensors; without weights, properties that depend on stored tensors have the usual values of
/// the family. Throws Error(bad_input) with the JSON pointer or the tensor, or Error(limit) if a size is too
/// large.
[[nodiscard]] ModelConfig resolve_config(const FamilySpec& row, const checkpoint::ModelSource& source);

}  // namespace attnctl::model

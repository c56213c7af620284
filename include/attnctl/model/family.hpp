#pragma once

#include "attnctl/model/config.hpp"
#include "attnctl/model/model.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace attnctl {

// A family as data: how its checkpoints name and store what the forward pass needs. Names of tensors may hold
// `{}` for the number of a layer (or of a group of layers). Behaviour that a new row needs is one enumerator
// here and one case where it is resolved (src/model/resolve*.cpp) or bound (src/model/binding*.cpp).

/// How a weight's axes are stored.
enum class Axes {
  out_in,         // [out, in], as torch.nn.Linear
  in_out,         // [in, out], as Conv1D
  in_out_or_head  // [in, out], or of rank 3: [heads, in, k], for an output projection [heads, v, out]
};

/// How several projections are packed along the outputs of a tensor, of which this one is a part.
enum class Packing {
  whole,            // it is alone
  query_key_value,  // [q; k; v]
  by_head,          // q, k, v of head 0, then of head 1, ...
  by_key_head,      // for each key/value head: the queries that share it, k, v
  in_four_blocks,   // four times: q, v, k of a quarter of the heads
  gate_up,          // [gate; up]
  gate_up_by_turns  // gate and up of unit 0, of unit 1, ...
};

/// One way in which a tensor may be stored: a name below the family's and the layer's prefix.
struct StoredTensor {
  std::string name = {};
  Axes axes = Axes::out_in;
  Packing packing = Packing::whole;
};

/// Whether a tensor that has names is there. A `key` is a boolean of the configuration.
struct Presence {
  enum class Rule {
    always,
    stored,
    configured,
    width_differs  // of the embedding's projection: where the tables are not as wide as the model
  } rule = Rule::always;
  std::string key = {};
  bool otherwise = false;  // where the configuration has no such key
};

/// The two tensors of a factorised weight W = A B: A [in, rank], B [rank, out].
struct FactorSpec {
  std::optional<StoredTensor> first = {}, last = {};  // both or none
};

/// y = x W + b; of the alternatives the first that the file holds is taken. Without names there is none.
struct LinearSpec {
  std::vector<StoredTensor> weight = {};
  std::vector<StoredTensor> bias = {};
  Presence weight_presence = {};
  Presence bias_presence = {};
  FactorSpec factors = {};  // another way to store the weight
};

/// Names of a norm's gain and bias; no names: it is not there, unless `bare`: it is, without tensors. A name
/// with `{head}` stands for one tensor a head.
struct NormSpec {
  std::vector<std::string> gain = {};
  std::vector<std::string> bias = {};
  bool bare = false;

  [[nodiscard]] bool present() const { return bare || !gain.empty(); }
};

/// The experts of a layer's MLP and their router. The tensors of all experts are stacked [experts, ...], or
/// there is one a name with `{expert}`.
struct ExpertsSpec {
  LinearSpec router = {};
  LinearSpec up = {}, gate = {}, down = {};
  LinearSpec shared_up = {}, shared_gate = {}, shared_down = {}, shared_factor = {};
};

/// The tensors of a layer. Next: relative position tables (t5, deberta), a second attention (the decoders of
/// bart and t5).
struct LayerSpec {
  LinearSpec query = {}, key = {}, value = {}, output = {};
  NormSpec attention_norm = {}, mlp_norm = {};                // as the family places them
  NormSpec attention_output_norm = {}, mlp_output_norm = {};  // NormPlace::both: of what the branches give
  NormSpec query_norm = {}, key_norm = {};                    // before they are turned
  bool first_attention_normed = true;                         // false: layer 0 has no attention_norm
  std::vector<std::string> sinks = {};                        // [heads]
  LinearSpec up = {}, gate = {}, down = {};                   // no names: the layer has none
  std::optional<ExpertsSpec> experts = {};
};

/// A size in the configuration: any of the names, else (missing or null) the value; no names: the value.
struct SizeKey {
  std::vector<std::string> names = {};
  std::optional<std::size_t> otherwise = {};  // nullopt: it must be there, or follows from other sizes
};

/// A table of scores by distance [rows, heads] that all layers of a stack share (RelativeBuckets).
struct RelativeBucketSpec {
  std::vector<std::string> table = {};  // below the family's prefix; that of a first layer is named with it
  SizeKey buckets = {}, max_distance = {};
  SizeKey rows = {};  // nothing: as many as buckets
  bool bidirectional = true;
};

/// Disentangled attention: /relative_attention, /pos_att_type and /max_relative_positions say which terms
/// there are and how far distances go.
struct DisentangledSpec {
  std::vector<std::string> table = {};  // below the family's prefix, one of the stack
  NormSpec norm = {};                   // of it, where /norm_rel_ebd says so
  LinearSpec key = {}, query = {};      // of it, in each layer
  bool buckets = false;                 // /position_buckets: far distances by their logarithm
  bool shares = false;                  // /share_att_key: the contents' projections serve
};

/// Where /conv_kernel_size is above 0, a convolution over the embeddings; below the family's prefix.
struct ConvolutionSpec {
  LinearSpec kernel = {};  // weight [d, d / groups, kernel]
  NormSpec norm = {};
};

/// How layers are numbered in names.
enum class Numbering { by_layer, by_group };  // by_group: int(layer / (layers / groups)), as ALBERT

/// A stack of like layers. Per-layer differences are properties of the configuration (window, scale, ...).
struct StackSpec {
  std::vector<std::string> prefixes = {};  // of a layer, e.g. "encoder.layer.{}."; as the file has it
  Numbering numbering = Numbering::by_layer;
  LayerSpec layer = {};
  std::optional<RelativeBucketSpec> relative = {};
  std::optional<DisentangledSpec> disentangled = {};
  std::optional<ConvolutionSpec> convolution = {};  // behind the first layer
};

/// Where the configuration says so, embeddings as under TokenDropout.
struct TokenDropoutSpec {
  std::string only_if = {};
  std::string token = {};  // an id
  double kept = 1;
};

/// The tables before the first layer, below the family's prefix. A position table that the family can compute
/// itself (sinusoidal) is read where it is stored.
struct EmbeddingSpec {
  std::vector<std::string> token = {}, position = {}, token_type = {};
  std::vector<std::string> class_token =
      {};                   // of families that read images, whose tables are [1, rows, width]
  LinearSpec patches = {};  // of an image, a convolution [d, channels, height, width]
  NormSpec norm = {};
  LinearSpec projection = {};  // where the tables are narrower than the model
};

/// The output head; names are absolute. With a transform (dense, activation, norm) it is a masked-token head
/// and there where the transform is stored. The decoder is the stored one, else the token embedding.
struct HeadSpec {
  LinearSpec transform = {};
  std::string activation = {};      // of the transform; none: that of the layers
  std::string activation_key = {};  // in the configuration; `activation` where it is not there
  NormSpec transform_norm = {};
  LinearSpec projection = {};  // where the decoder is narrower than the model
  LinearSpec decoder = {};
  bool tied_otherwise = true;  // without weights and without a /tie_word_embeddings
};

/// A number in the configuration, or what follows from one. `a/b` is key b of the object a.
struct NumberKey {
  std::vector<std::string> names = {};
  double otherwise = 0;
  enum class Rule { plain, inverse, inverse_root } rule = Rule::plain;
  bool null_is_zero = false;  // else a null is as missing
};

struct ConfigKeys {
  SizeKey d_model = {}, layers = {}, heads = {};
  SizeKey kv_heads = {};   // nothing: heads
  SizeKey d_head = {};     // nothing: d_model / heads
  SizeKey mlp_width = {};  // nothing: 4 d_model
  SizeKey embedding = {};  // nothing: d_model
  SizeKey vocabulary = {}, max_positions = {}, token_types = {}, groups = {};
  SizeKey padding = {};  // an id: positions are counted past its row of the table, tokens of it left out
  SizeKey channels = {}, image = {}, patch = {};  // of images; the last two may be [height, width]
  std::vector<std::string> norm_eps = {}, activation = {};
  double norm_eps_otherwise = 0;
  std::string activation_otherwise = {};
  std::string inverse_layer_if = {};  // true: scale / (layer + 1)
  std::string causal_if = {};         // true: causal
  NumberKey scale = {};               // of scores; no names and 0: 1/sqrt(d_head)
  NumberKey soft_cap = {}, clip = {};
  NumberKey embedding_multiplier = {.otherwise = 1};
  NumberKey residual_multiplier = {.otherwise = 1};
  NumberKey logit_multiplier = {.otherwise = 1};
  NumberKey logit_soft_cap = {};
  SizeKey experts = {}, experts_per_token = {}, expert_width = {}, shared_width = {};
  SizeKey sparse_step = {};       // layers i with (i + 1) divisible by it have experts; no names: all
  std::string dense_layers = {};  // a list of layers without experts
  NumberKey expert_limit = {}, expert_alpha = {.otherwise = 1};
};

/// Where sizes come from. `tensors`: a bare mechanism, of which only heads and options are configured.
enum class SizesFrom { config, tensors };

/// Rotary position of layers with a window where it is not that of the others: /rope_parameters then holds
/// an object for full_attention and one for sliding_attention.
struct SlidingRotarySpec {
  std::string theta_name = {};  // of old configurations
  double theta = 10000;
  bool scaled = false;  // /rope_scaling, the old key, is of these layers too
};

/// Rotary position; its keys, old and new, are the same in all families but for those named here.
struct RotarySpec {
  RotaryPairing pairing = RotaryPairing::half;
  double theta = 10000;  // where the configuration has none
  double part = 1;       // of the head's width that turns, where the configuration does not say
  std::vector<std::string> theta_names = {"rope_theta"};
  std::vector<std::string> part_names = {"partial_rotary_factor"};
  SizeKey dims = {};                   // how many dimensions turn; no names: by part
  std::size_t original_otherwise = 0;  // of original_max_position_embeddings; 0: the longest sequence
  std::string layers_without = {};     // a list, a layer with 0 in it does not turn
  std::string every_without = {};      // without such a list: every how many layers one does not
  std::size_t every_otherwise = 0;
  nlohmann::ordered_json parameters = {};  // rope_parameters where the configuration has none
  bool yarn_is_longrope = false;           // the type yarn once meant another scaling
  std::vector<std::string> stored = {};    // inverse frequencies, below the family's prefix: they win
  std::optional<SlidingRotarySpec> sliding = {};
};

/// The rule by which heads get their slopes.
enum class AlibiSlopes {
  none,
  nearest_power,  // of the largest power of 2 that is no more than the heads, then of twice as many
  next_power      // of the smallest that is no fewer, every second first
};

/// Which layers see a window of keys, and how wide it is.
struct WindowKeys {
  std::string size = {};         // null: no windows
  std::size_t otherwise = 0;     // where the configuration has no such key
  std::string only_if = {};      // not true: no windows
  std::string layer_types = {};  // a list of full_attention and sliding_attention
  std::string first = {};        // without such a list, the first layer with a window; no key: all have it
  std::size_t first_otherwise = 0;
  std::vector<std::string> period = {};  // without such a list, every how many layers one has no window
  std::size_t period_otherwise = 0;      // 0: no such rule
  bool full_first = false;               // it is the first of them, else the last
  bool both_sides = false;               // size counts keys to both sides: |i - j| <= size / 2
  bool below = false;                    // `first` is the first layer that has none
  bool unturned_only = false;            // without such a list, only layers without rotary position have one
  bool every_second = false;             // without such a list, layers 1, 3, ... have one
  std::string runs = {};                 // a list of [[type, ...], times] with types global and local
};

/// A key that must have one of these values where it is there: everything else is refused as unsupported.
struct Requirement {
  std::string key = {};
  std::vector<nlohmann::ordered_json> values = {};
};

struct FamilySpec;

/// How the row changes where a key has a value: a family that knows several shapes is one row with variants.
struct Variant {
  std::string key = {};
  nlohmann::ordered_json value = {};      // applies where the key (`a/b`: in the object a) has this value,
  nlohmann::ordered_json otherwise = {};  // or where it is missing and this is that value
  void (*apply)(FamilySpec& row) = nullptr;
};

/// A decoder that reads the output of an encoder, which is then FamilySpec::stack. Its layers are two
/// attentions each; norms, activation and the like are the encoder's.
struct DecoderSpec {
  std::string prefix = {};                          // of a layer, as StackSpec::prefixes
  LayerSpec self = {};                              // causal, over the decoder's own stream; no MLP
  LayerSpec cross = {};                             // over the encoder's output, and the MLP
  std::optional<RelativeBucketSpec> relative = {};  // of `self`
  EmbeddingSpec embedding = {};
  NormSpec final_norm = {};  // FamilySpec::final_norm is the encoder's
  SizeKey layers = {}, heads = {}, mlp_width = {};
  SizeKey vocabulary = {};                // of the target,
  std::string vocabulary_shared_if = {};  // unless this is true or missing: then the source's
  std::vector<std::string> start_token = {"decoder_start_token_id"};
};

struct FamilySpec {
  std::string name = {};                   // model_type
  std::vector<std::string> prefixes = {};  // of all tensors but the head; "" last: a headless save has none
  StackSpec stack = {};                    // of the encoder where there is a decoder
  std::optional<DecoderSpec> decoder = {};
  EmbeddingSpec embedding = {};
  NormSpec final_norm = {};
  std::optional<HeadSpec> head = {};

  SizesFrom sizes = SizesFrom::config;
  ConfigKeys keys = {};
  NormKind norm = NormKind::none;
  NormPlace place = NormPlace::none;
  float gain_offset = 0;           // of all norms: gains are stored weights plus this
  bool parallel = false;           // attention and MLP are fed the same stream
  bool embedding_by_root = false;  // token embeddings times sqrt(d_model)
  PositionKind position = PositionKind::none;
  bool positions_last = false;   // added after the tables' projection, not before it
  bool projected_first = false;  // the embedding's norm follows the projection
  bool zero_hidden = false;      // embeddings of what the key mask hides are zero
  std::optional<TokenDropoutSpec> token_dropout = {};
  std::size_t position_offset = 0;  // rows of the table before that of position 0
  bool counts_visible = false;      // positions are those among visible tokens
  AlibiSlopes alibi = AlibiSlopes::none;
  bool alibi_rounded = false, alibi_from_last = false;
  HeadNormSpan head_norm_span = HeadNormSpan::shared;
  bool softmax_of_picked = false;  // of experts
  bool renormalised = false;
  std::optional<RotarySpec> rotary = {};
  std::optional<WindowKeys> window = {};
  bool causal = false;
  std::vector<Requirement> requirements = {};
  std::vector<std::string> refused_tensors = {};  // of the first layer; mechanisms that attnctl does not have
  bool one_name_each = false;                     // two alternatives of one tensor in a file are an error
  std::vector<Variant> variants = {};             // in order
};

/// All families, by name.
[[nodiscard]] std::span<const FamilySpec> families();

/// The row of a configuration's /model_type, or of its /text_config's, with the variants applied that the
/// configuration asks for. Throws Error(bad_input) that lists the supported ones; `file` names the
/// configuration.
[[nodiscard]] FamilySpec family_of(const std::string& file, const nlohmann::ordered_json& config);

/// Buffers that old checkpoints hold and that no forward pass needs: position ids, causal masks, rotary
/// frequencies.
[[nodiscard]] bool is_known_buffer(std::string_view tensor_name);

/// The resolved hyper-parameters, checked against each other. `source.weights` may be null where sizes come
/// from the configuration; then what depends on the stored tensors is taken as its family usually has it.
/// Throws Error: bad_input with the JSON pointer, limit for sizes beyond reason.
[[nodiscard]] ModelConfig resolve_config(const ModelSource& source);
/// The same by a row that was found, and perhaps changed, before.
[[nodiscard]] ModelConfig resolve_config(const FamilySpec& row, const ModelSource& source);

}  // namespace attnctl

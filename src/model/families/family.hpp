#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/config/config.hpp"
#include "model/families/family_keys.hpp"
#include "model/model.hpp"

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
    width_differs  // of the projections behind the tables and before the decoder: where those are not as wide
                   // as the model
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

/// The tensors of a layer: one attention and the MLP behind it.
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

/// Where sizes come from. `tensors`: a bare mechanism, of which only heads and options are configured.
enum class SizesFrom { config, tensors };

/// The rule by which heads get their slopes.
enum class AlibiSlopes {
  none,
  nearest_power,  // of the largest power of 2 that is no more than the heads, then of twice as many
  next_power      // of the smallest that is no fewer, every second first
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

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

/// What of a tensor is meant. Next: rows per head q, k, v (gpt_neox, bloom), per group of heads (falcon,
/// bigcode), four blocks of q, v, k (codegen), gate and up (phi3).
enum class Packing {
  whole,
  query_key_value  // [q; k; v] along the outputs: this projection's part of it
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

/// Names of a norm's gain and bias; an RMS norm has no bias. Next: norms without tensors (olmo), gain + 1
/// (gemma: NormConfig::gain_offset), norms of branches' outputs (gemma2).
struct NormSpec {
  std::vector<std::string> gain = {};
  std::vector<std::string> bias = {};
};

/// The tensors of a layer. Next: experts and their router (mixtral), sinks (gpt_oss), relative position
/// tables (t5, deberta), a second attention (the decoders of bart and t5).
struct LayerSpec {
  LinearSpec query = {}, key = {}, value = {}, output = {};
  NormSpec attention_norm = {}, mlp_norm = {};
  NormSpec query_norm = {}, key_norm = {};   // of each head [d_head], before it is turned
  LinearSpec up = {}, gate = {}, down = {};  // no names: the layer has none
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

/// How layers are numbered in names.
enum class Numbering { by_layer, by_group };  // by_group: int(layer / (layers / groups)), as ALBERT

/// A stack of like layers. Per-layer differences are properties of the configuration (window, scale, ...).
struct StackSpec {
  std::vector<std::string> prefixes = {};  // of a layer, e.g. "encoder.layer.{}."; as the file has it
  Numbering numbering = Numbering::by_layer;
  LayerSpec layer = {};
  std::optional<RelativeBucketSpec> relative = {};
};

/// The tables before the first layer, below the family's prefix.
struct EmbeddingSpec {
  std::vector<std::string> token = {}, position = {}, token_type = {};
  NormSpec norm = {};
  LinearSpec projection = {};  // where the tables are narrower than the model
};

/// The output head; names are absolute. With a transform (dense, activation, norm) it is a masked-token head
/// and there where the transform is stored. The decoder is the stored one, else the token embedding.
struct HeadSpec {
  LinearSpec transform = {};
  std::string activation = {};  // of the transform; none: that of the layers
  NormSpec transform_norm = {};
  LinearSpec decoder = {};
  bool tied_otherwise = true;  // without weights and without a /tie_word_embeddings
};

struct ConfigKeys {
  SizeKey d_model = {}, layers = {}, heads = {};
  SizeKey kv_heads = {};   // nothing: heads
  SizeKey d_head = {};     // nothing: d_model / heads
  SizeKey mlp_width = {};  // nothing: 4 d_model
  SizeKey embedding = {};  // nothing: d_model
  SizeKey vocabulary = {}, max_positions = {}, token_types = {}, groups = {};
  SizeKey padding = {};  // an id: positions are counted past its row of the table, tokens of it left out
  std::vector<std::string> norm_eps = {}, activation = {};
  double norm_eps_otherwise = 0;
  std::string activation_otherwise = {};
  std::string unscaled_unless = {};   // false: scale 1 in place of 1/sqrt(d_head)
  std::string inverse_layer_if = {};  // true: scale / (layer + 1)
  std::string causal_if = {};         // true: causal
};

/// Where sizes come from. `tensors`: a bare mechanism, of which only heads and options are configured.
enum class SizesFrom { config, tensors };

/// Rotary position; its keys, old and new, are the same in all families. Next: `partial` for those that turn
/// a part of the head (neox .25, phi .5), parameters by layer type (gemma3, modernbert).
struct RotarySpec {
  RotaryPairing pairing = RotaryPairing::half;
  double theta = 10000;  // where the configuration has none
};

/// Which layers see a window of keys, and how wide it is.
struct WindowKeys {
  std::string size = {};         // null: no windows
  std::size_t otherwise = 0;     // where the configuration has no such key
  std::string only_if = {};      // not true: no windows
  std::string layer_types = {};  // a list of full_attention and sliding_attention
  std::string first = {};        // without such a list, the first layer with a window; no key: all have it
  std::size_t first_otherwise = 0;
};

/// A key that must have one of these values where it is there: everything else is refused as unsupported.
struct Requirement {
  std::string key = {};
  std::vector<nlohmann::ordered_json> values = {};
};

struct FamilySpec {
  std::string name = {};                   // model_type
  std::vector<std::string> prefixes = {};  // of all tensors but the head; "" last: a headless save has none
  StackSpec stack = {};                    // next: an encoder and a decoder
  EmbeddingSpec embedding = {};
  NormSpec final_norm = {};
  std::optional<HeadSpec> head = {};

  SizesFrom sizes = SizesFrom::config;
  ConfigKeys keys = {};
  NormKind norm = NormKind::none;
  NormPlace place = NormPlace::none;  // next: parallel branches, norms on both sides
  PositionKind position = PositionKind::none;
  std::optional<RotarySpec> rotary = {};
  std::optional<WindowKeys> window = {};
  bool causal = false;
  std::vector<Requirement> requirements = {};
  std::vector<std::string> refused_tensors = {};  // of the first layer; mechanisms that attnctl does not have
  bool one_name_each = false;                     // two alternatives of one tensor in a file are an error
};

/// All families, by name.
[[nodiscard]] std::span<const FamilySpec> families();

/// The row of a configuration's /model_type. Throws Error(bad_input) that lists the supported ones; `file`
/// names the configuration.
[[nodiscard]] const FamilySpec& family_of(const std::string& file, const nlohmann::ordered_json& config);

/// Buffers that old checkpoints hold and that no forward pass needs: position ids, causal masks, rotary
/// frequencies.
[[nodiscard]] bool is_known_buffer(std::string_view tensor_name);

/// The resolved hyper-parameters, checked against each other. `source.weights` may be null where sizes come
/// from the configuration; then what depends on the stored tensors is taken as its family usually has it.
/// Throws Error: bad_input with the JSON pointer, limit for sizes beyond reason.
[[nodiscard]] ModelConfig resolve_config(const ModelSource& source);

}  // namespace attnctl

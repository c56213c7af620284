#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/config/config.hpp"

namespace attnctl {

// Where the row of a family finds sizes and properties in a configuration, and what stands for missing keys.

/// A size in the configuration: any of the names, else (missing or null) the value; no names: the value.
struct SizeKey {
  std::vector<std::string> names = {};
  std::optional<std::size_t> otherwise = {};  // nullopt: it must be there, or follows from other sizes
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
  std::string runs = {};                 // a list of [[type, ...], times] with types global and local
};

/// A key that must have one of these values where it is there: everything else is refused as unsupported.
struct Requirement {
  std::string key = {};
  std::vector<nlohmann::ordered_json> values = {};
};

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/families/family.hpp"

namespace attnctl::model {

// Functions that build the FamilySpec of each family. `name` is the name of a module in the checkpoint, for
// example "attn.c_proj" for the tensors "attn.c_proj.weight" and "attn.c_proj.bias".

[[nodiscard]] inline LinearSpec linear(const std::string& name) {
  return {.weight = {{name + ".weight"}}, .bias = {{name + ".bias"}}};
}

[[nodiscard]] inline LinearSpec linear_without_bias(const std::string& name) {
  return {.weight = {{name + ".weight"}}};
}

/// Returns the spec of a projection that is packed with others in one torch.nn.Linear.
[[nodiscard]] inline LinearSpec packed_linear(const std::string& name, Packing packing) {
  return {.weight = {{name + ".weight", Axes::out_in, packing}},
          .bias = {{name + ".bias", Axes::out_in, packing}}};
}

/// Returns the spec of a linear layer that has a bias if the flag `key` of the configuration is true.
/// `default_value` is the value of a missing flag.
[[nodiscard]] inline LinearSpec linear_with_bias_if(const std::string& name, const std::string& key,
                                                    bool default_value = false,
                                                    Packing packing = Packing::whole) {
  LinearSpec spec = packed_linear(name, packing);
  spec.bias_if = key;
  spec.bias_default = default_value;
  return spec;
}

[[nodiscard]] inline LinearSpec linear_if_width_differs(const std::string& name) {
  return {.weight = {{name + ".weight"}}, .if_width_differs = true};
}

/// Returns the spec of a linear layer that is stored like the class Conv1D of transformers, as [in, out].
[[nodiscard]] inline LinearSpec conv1d(const std::string& name, Packing packing = Packing::whole) {
  return {.weight = {{name + ".weight", Axes::in_out, packing}},
          .bias = {{name + ".bias", Axes::in_out, packing}}};
}

using MakeLinear = LinearSpec (*)(const std::string& name);
/// Sets the projections of a layer. The names are in the order query, key, value, output, up, down, gate. If
/// there are fewer names, the other projections do not change.
inline void set_projections(LayerSpec& layer, MakeLinear make, const std::vector<std::string>& names) {
  LinearSpec* const parts[] = {&layer.query,  &layer.key,      &layer.value,   &layer.output,
                               &layer.mlp.up, &layer.mlp.down, &layer.mlp.gate};
  for (std::size_t i = 0; i < names.size(); ++i) *parts[i] = make(names[i]);
}

/// Sets a projection that packs query, key and value.
inline void set_packed(LayerSpec& layer, const LinearSpec& packed) {
  layer.query = layer.key = layer.value = packed;
}

[[nodiscard]] inline LayerSpec plain_layer(MakeLinear make, const std::vector<std::string>& names,
                                           const NormSpec& attention_norm, const NormSpec& mlp_norm) {
  LayerSpec layer = {.attention_norm = attention_norm, .mlp_norm = mlp_norm};
  set_projections(layer, make, names);
  return layer;
}

inline void remove_mlp_biases(LayerSpec& layer) {
  for (LinearSpec* one : {&layer.mlp.up, &layer.mlp.gate, &layer.mlp.down}) one->bias = {};
}

inline void remove_biases(LayerSpec& layer) {
  for (LinearSpec* one : {&layer.query, &layer.key, &layer.value, &layer.output}) one->bias = {};
  remove_mlp_biases(layer);
}

/// Returns the spec of a torch.nn.LayerNorm, stored as weight and bias or as gamma and beta.
[[nodiscard]] inline NormSpec layer_norm(const std::string& name) {
  return {.gain = {name + ".weight", name + ".gamma"}, .bias = {name + ".bias", name + ".beta"}};
}

[[nodiscard]] inline NormSpec norm_without_bias(const std::string& name) {
  return {.gain = {name + ".weight"}};
}

/// Returns an output head without a transform. The output matrix is the tensor `name`.weight if stored,
/// otherwise the token embedding table.
[[nodiscard]] inline HeadSpec plain_head(const std::string& name) {
  return {.decoder = linear_without_bias(name)};
}

/// Returns a masked-token head. The bias of the output matrix may be stored as `decoder`.bias or
/// `other_bias`.
[[nodiscard]] inline HeadSpec masked_token_head(const std::string& dense, const std::string& norm,
                                                const std::string& decoder,
                                                const std::string& other_bias = {}) {
  HeadSpec head = plain_head(decoder);
  head.transform = linear(dense);
  head.transform_norm = layer_norm(norm);
  head.decoder.bias = {{decoder + ".bias"}};
  if (!other_bias.empty()) head.decoder.bias.push_back({other_bias});
  return head;
}

[[nodiscard]] inline ConfigKeys common_keys(std::size_t mlp_width, std::size_t vocabulary,
                                            std::size_t max_positions, const NumberKey& norm_eps,
                                            const std::string& activation) {
  return {.d_model = {{"hidden_size"}, {}},
          .layers = {{"num_hidden_layers"}, {}},
          .heads = {{"num_attention_heads"}, {}},
          .mlp_width = {{"intermediate_size"}, mlp_width},
          .vocabulary = {{"vocab_size"}, vocabulary},
          .max_positions = {{"max_position_embeddings"}, max_positions},
          .norm_eps = norm_eps,
          .activation = {{"hidden_act"}, activation}};
}

/// Default sizes for set_defaults(). A size that is nullopt does not change the default.
struct DefaultSizes {
  std::optional<std::size_t> heads = {}, kv_heads = {}, d_head = {};
  std::optional<std::size_t> mlp_width = {}, vocabulary = {}, max_positions = {};
};
inline void set_defaults(ConfigKeys& keys, const DefaultSizes& sizes) {
  const std::pair<SizeKey&, std::optional<std::size_t>> all[] = {
      {keys.heads, sizes.heads},           {keys.kv_heads, sizes.kv_heads},
      {keys.d_head, sizes.d_head},         {keys.mlp_width, sizes.mlp_width},
      {keys.vocabulary, sizes.vocabulary}, {keys.max_positions, sizes.max_positions}};
  for (const auto& [key, size] : all) {
    if (size) key.default_value = size;
  }
}

/// A family in the lists below. `change` gets a copy of the FamilySpec of the family `base`, which must be
/// earlier in the list, and changes the fields that differ. If `base` is "", it gets a default FamilySpec.
struct FamilyRow {
  std::string name, base;
  void (*change)(FamilySpec& spec);
};

[[nodiscard]] std::vector<FamilyRow> encoder_families();
[[nodiscard]] std::vector<FamilyRow> decoder_families();
[[nodiscard]] std::vector<FamilyRow> llama_families();

}  // namespace attnctl::model

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/families/family.hpp"

namespace attnctl {

// Functions that build the rows of the table of families. `name` is the name of a module in the checkpoint.

/// Returns a torch.nn.Linear, always with a bias.
[[nodiscard]] LinearSpec linear(const std::string& name);
[[nodiscard]] LinearSpec linear_without_bias(const std::string& name);
/// Returns a linear layer that has a bias if the flag `key` of the configuration is true.
[[nodiscard]] LinearSpec linear_with_bias_if(const std::string& name, const std::string& key,
                                             bool default_value = false, Packing packing = Packing::whole);
/// Returns one of the projections that are packed in one torch.nn.Linear.
[[nodiscard]] LinearSpec packed_linear(const std::string& name, Packing packing);
/// Returns a projection without a bias that exists only if the embedding tables and the model have different
/// widths.
[[nodiscard]] LinearSpec linear_if_width_differs(const std::string& name);
/// Returns a linear layer stored as the class Conv1D of transformers.
[[nodiscard]] LinearSpec conv1d(const std::string& name, Packing packing = Packing::whole);

/// A function that makes a projection from the name of its module.
using MakeLinear = LinearSpec (*)(const std::string& name);
/// Sets the projections of a layer. The names are in the order query, key, value, output, up, down, gate.
void set_projections(LayerSpec& layer, MakeLinear make, const std::vector<std::string>& names);
/// Returns a layer with these projections and two norms.
[[nodiscard]] LayerSpec plain_layer(MakeLinear make, const std::vector<std::string>& names,
                                    const NormSpec& attention_norm, const NormSpec& mlp_norm);

void remove_biases(LayerSpec& layer);
void remove_mlp_biases(LayerSpec& layer);

/// Returns a torch.nn.LayerNorm, stored as weight and bias or as gamma and beta.
[[nodiscard]] NormSpec layer_norm(const std::string& name);
/// Returns a norm of any kind that has only a gain.
[[nodiscard]] NormSpec norm_without_bias(const std::string& name);

/// Returns a head without a transform. The output matrix is the tensor `name` if stored, otherwise the token
/// embedding table.
[[nodiscard]] HeadSpec plain_head(const std::string& name);
/// Returns a masked-token head. Its bias may be stored under the decoder, under `predictions`, or under both.
[[nodiscard]] HeadSpec masked_token_head(const std::string& dense, const std::string& norm,
                                         const std::string& predictions);

/// Returns the keys that most configurations share: hidden_size, num_hidden_layers, num_attention_heads,
/// hidden_act, and intermediate_size, vocab_size and max_position_embeddings with the three given defaults.
[[nodiscard]] ConfigKeys common_keys(std::size_t mlp_width, std::size_t vocabulary,
                                     std::size_t max_positions);

/// Default sizes for set_defaults(). A size that is nullopt does not change the default.
struct DefaultSizes {
  std::optional<std::size_t> heads = {}, kv_heads = {}, d_head = {};
  std::optional<std::size_t> mlp_width = {}, vocabulary = {}, max_positions = {};
};
void set_defaults(ConfigKeys& keys, const DefaultSizes& sizes);

/// Returns a copy of another family's row with a new name. The caller then changes the fields that differ.
[[nodiscard]] FamilySpec named(std::string name, FamilySpec row);

/// Return the rows that are defined in families_encoder.cpp, families_decoder.cpp and families_llama.cpp.
[[nodiscard]] std::vector<FamilySpec> encoder_families();
[[nodiscard]] std::vector<FamilySpec> decoder_families();
[[nodiscard]] std::vector<FamilySpec> llama_families();

}  // namespace attnctl

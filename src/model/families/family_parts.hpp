#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/families/family.hpp"

namespace attnctl {

// Building blocks for the rows of the table of families.

/// torch.nn.Linear `name`, always with a bias.
[[nodiscard]] LinearSpec linear(const std::string& name);
[[nodiscard]] LinearSpec linear_without_bias(const std::string& name);
/// A linear layer whose bias depends on the flag `key` of the configuration.
[[nodiscard]] LinearSpec linear_with_bias_if(const std::string& name, const std::string& key,
                                             bool default_value = false);
[[nodiscard]] LinearSpec linear_with_bias_if(const std::string& name, const std::string& key,
                                             Packing packing);
/// One of the projections packed in the torch.nn.Linear `name`.
[[nodiscard]] LinearSpec packed_linear(const std::string& name, Packing packing);
/// A projection without a bias that exists only if the tables and the model have different widths.
[[nodiscard]] LinearSpec linear_if_width_differs(const std::string& name);
/// transformers' Conv1D `name`.
[[nodiscard]] LinearSpec conv1d(const std::string& name, Packing packing = Packing::whole);

/// Makes a projection from the name of its module.
using MakeLinear = LinearSpec (*)(const std::string& name);
/// Sets the projections with these names, in the order query, key, value, output, up, down, gate.
void set_projections(LayerSpec& layer, MakeLinear make, const std::vector<std::string>& names);
/// A layer with these projections and two norms.
[[nodiscard]] LayerSpec plain_layer(MakeLinear make, const std::vector<std::string>& names,
                                    const NormSpec& attention_norm, const NormSpec& mlp_norm);

void remove_biases(LayerSpec& layer);
void remove_mlp_biases(LayerSpec& layer);

/// torch.nn.LayerNorm `name`, stored as weight and bias or as gamma and beta.
[[nodiscard]] NormSpec layer_norm(const std::string& name);
/// A norm of any kind with a gain only.
[[nodiscard]] NormSpec norm_without_bias(const std::string& name);

/// A head without transform: the stored matrix, otherwise the token embedding.
[[nodiscard]] HeadSpec plain_head(const std::string& name);
/// A masked-token head. Its bias may be stored under the decoder, under `predictions`, or both.
[[nodiscard]] HeadSpec masked_token_head(const std::string& dense, const std::string& norm,
                                         const std::string& predictions);

/// The size keys that most configurations share: hidden_size, num_hidden_layers, num_attention_heads,
/// intermediate_size, vocab_size and max_position_embeddings, the last three with these defaults; and
/// hidden_act.
[[nodiscard]] ConfigKeys common_keys(std::size_t mlp_width, std::size_t vocabulary,
                                     std::size_t max_positions);

/// Default sizes to set. Absent ones keep their values.
struct DefaultSizes {
  std::optional<std::size_t> heads = {}, kv_heads = {}, d_head = {};
  std::optional<std::size_t> mlp_width = {}, vocabulary = {}, max_positions = {};
};
void set_defaults(ConfigKeys& keys, const DefaultSizes& sizes);

/// Returns the row of another family under a new name. The caller states what differs.
[[nodiscard]] FamilySpec named(std::string name, FamilySpec row);

/// The rows of each file.
[[nodiscard]] std::vector<FamilySpec> encoder_families();
[[nodiscard]] std::vector<FamilySpec> decoder_families();
[[nodiscard]] std::vector<FamilySpec> llama_families();

}  // namespace attnctl

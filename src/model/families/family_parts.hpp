#pragma once

#include <string>
#include <vector>

#include "model/families/family.hpp"

namespace attnctl {

// What the rows of the table of families are put together from.

/// torch.nn.Linear `name`, always with a bias.
[[nodiscard]] LinearSpec linear(const std::string& name);
[[nodiscard]] LinearSpec linear_without_bias(const std::string& name);
/// `otherwise`: where the configuration has no such key.
[[nodiscard]] LinearSpec linear_with_bias_if(const std::string& name, const std::string& key,
                                             bool otherwise = false);
/// One of the projections that share the torch.nn.Linear `name`.
[[nodiscard]] LinearSpec linear_with_bias_if(const std::string& name, const std::string& key,
                                             Packing packing);
[[nodiscard]] LinearSpec packed_linear(const std::string& name, Packing packing);
/// Without a bias, and only where the tables are not as wide as the model.
[[nodiscard]] LinearSpec linear_if_width_differs(const std::string& name);
/// Removes biases, of all projections of a layer.
void remove_biases(LayerSpec& layer);

/// transformers' Conv1D `name`.
[[nodiscard]] LinearSpec conv1d(const std::string& name, Packing packing = Packing::whole);

/// torch.nn.LayerNorm `name`, once saved as gamma and beta.
[[nodiscard]] NormSpec layer_norm(const std::string& name);
[[nodiscard]] NormSpec rms_norm(const std::string& name);
/// A norm with a gain alone, of whatever kind.
[[nodiscard]] NormSpec norm_without_bias(const std::string& name);

/// A decoder without transform: the stored one, else the token embedding.
[[nodiscard]] HeadSpec plain_head(const std::string& name);

/// A masked-token head; its bias is stored as the decoder's, as that of `predictions`, or as both.
[[nodiscard]] HeadSpec masked_token_head(const std::string& dense, const std::string& norm,
                                         const std::string& predictions);

/// Rows that others are like.
[[nodiscard]] FamilySpec bert();
/// With names of a decoder and a transform of their own; positions are counted past the padding's.
[[nodiscard]] FamilySpec roberta();

/// The rows, by what their models read.
[[nodiscard]] std::vector<FamilySpec> encoder_families();
[[nodiscard]] std::vector<FamilySpec> encoder_families_of_distances();  // position takes part in the scores
[[nodiscard]] std::vector<FamilySpec> decoder_families();
[[nodiscard]] std::vector<FamilySpec> encoder_decoder_families();
[[nodiscard]] std::vector<FamilySpec> alibi_families();
[[nodiscard]] std::vector<FamilySpec> llama_relative_families();
[[nodiscard]] std::vector<FamilySpec> llama_families();   // decoders of llama's layout
[[nodiscard]] std::vector<FamilySpec> expert_families();  // of them those with experts
[[nodiscard]] std::vector<FamilySpec> vision_families();

/// Rows that others are made from.
[[nodiscard]] FamilySpec gpt_neox_row();
[[nodiscard]] FamilySpec llama_row();
[[nodiscard]] FamilySpec mistral_row();
[[nodiscard]] FamilySpec qwen2_row();

}  // namespace attnctl

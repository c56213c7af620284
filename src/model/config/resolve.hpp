#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "checkpoint/source.hpp"
#include "model/config/config_reader.hpp"
#include "model/families/family.hpp"

namespace attnctl::model {

// The steps of resolve_config. Functions that take a ConfigReader throw Error(bad_input) with the file and,
// in most errors, the JSON pointer.

inline constexpr std::size_t max_layers = 10'000;
inline constexpr std::size_t max_head_width = 1U << 20U;

/// Returns the number of layers. Throws Error(limit) if it is above max_layers.
[[nodiscard]] std::size_t resolve_layer_count(const FamilySpec& family, const ConfigReader& config);

/// Throws Error(bad_input) if `whole` is not a multiple of `part`. The names are those of their keys.
void check_multiple(const ConfigReader& config, const ConfigReader::Names& whole_names, std::size_t whole,
                    const ConfigReader::Names& part_names, std::size_t part);

[[nodiscard]] Activation resolve_activation(const TextKey& key, const ConfigReader& config);

/// Returns the kind and eps, which all norms of a model share.
[[nodiscard]] NormConfig resolve_norm(const FamilySpec& family, const ConfigReader& config);
/// Returns `norm` with gain and bias set to whether `spec` has tensors for them. The kind is none if the norm
/// does not exist.
[[nodiscard]] NormConfig with_tensors(NormConfig norm, const NormSpec& spec);

/// Returns which tensors of a projection exist according to the configuration. `same_width` says whether the
/// embedding tables and the model have the same width.
[[nodiscard]] LinearParts resolve_parts(const LinearSpec& spec, const ConfigReader& config,
                                        bool same_width = false);

/// Returns the attention properties that all layers share. Uses d_model and max_positions of `model`.
[[nodiscard]] AttentionConfig resolve_attention(const FamilySpec& family, const ConfigReader& config,
                                                const ModelConfig& model);

/// Returns the rotary parameters; inverse frequencies are in float32, exactly as transformers computes them
/// (modeling_rope_utils). If /rope_scaling (the old key) is not empty, it is used instead of /rope_parameters
/// (the new key). A rope_theta in either of them is used instead of the old top-level key. If `sliding` is
/// true, returns the parameters for layers with a sliding window (RotarySpec::sliding).
[[nodiscard]] RotaryConfig resolve_rotary(const RotarySpec& spec, const ConfigReader& config,
                                          std::size_t d_head, std::size_t max_positions,
                                          bool sliding = false);

/// Returns the layers of one component. Uses d_model and max_positions of `model`.
[[nodiscard]] std::vector<LayerConfig> resolve_layers(const FamilySpec& family, const ConfigReader& config,
                                                      const NormConfig& norm, const ModelConfig& model,
                                                      Component component);

/// Returns the configuration of a family with sizes_from_tensors. Reads the sizes from the shapes of the
/// tensors of the first layer (docs/attention.md).
[[nodiscard]] ModelConfig resolve_from_tensors(const FamilySpec& family, const ConfigReader& config,
                                               const checkpoint::Checkpoint& weights);

}  // namespace attnctl::model

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "checkpoint/source.hpp"
#include "model/config/config_reader.hpp"
#include "model/families/family.hpp"

namespace attnctl {

// The parts of a configuration, in the order in which resolve_config computes them. Each throws
// Error(bad_input) with the file and the JSON pointer.

inline constexpr std::size_t max_layers = 10'000;
inline constexpr std::size_t max_head_width = 1U << 20U;

/// Returns the number of layers. Throws Error(limit) above max_layers.
[[nodiscard]] std::size_t resolve_layer_count(const FamilySpec& family, const ConfigReader& config);

/// Throws Error(bad_input) if `whole` is not a multiple of `part`; the names are the keys of the two.
void check_multiple(const ConfigReader& config, const std::string& whole_name, std::size_t whole,
                    const std::string& part_name, std::size_t part);

[[nodiscard]] Activation resolve_activation(const TextKey& key, const ConfigReader& config);

/// Returns the properties that all norms of a model share.
[[nodiscard]] NormConfig resolve_norm(const FamilySpec& family, const ConfigReader& config);
/// Returns `norm` with the tensors of `spec`; kind none if the norm does not exist.
[[nodiscard]] NormConfig with_tensors(NormConfig norm, const NormSpec& spec);

/// Returns which tensors the configuration says a projection has. Those marked Presence::stored, which only
/// the file can tell, count as absent.
[[nodiscard]] LinearParts resolve_parts(const LinearSpec& spec, const ConfigReader& config);

/// Returns the attention that all layers share; `model` has d_model and max_positions.
[[nodiscard]] AttentionConfig resolve_attention(const FamilySpec& family, const ConfigReader& config,
                                                const ModelConfig& model);

/// Returns inverse frequencies in float32 exactly as transformers computes them (modeling_rope_utils). A
/// non-empty /rope_scaling (old key) replaces /rope_parameters (new key); rope_theta inside either takes
/// precedence over the old top-level key. `sliding`: those of sliding-window layers (RotarySpec::sliding).
[[nodiscard]] RotaryConfig resolve_rotary(const RotarySpec& spec, const ConfigReader& config,
                                          std::size_t d_head, std::size_t max_positions,
                                          bool sliding = false);

/// Fills model.layers.
void resolve_layers(const FamilySpec& family, const ConfigReader& config, const NormConfig& norm,
                    ModelConfig& model);

/// Resolves a family with SizesFrom::tensors from the shapes of the first layer (docs/attention.md).
[[nodiscard]] ModelConfig resolve_from_tensors(const FamilySpec& family, const ConfigReader& config,
                                               const Checkpoint& weights);

}  // namespace attnctl

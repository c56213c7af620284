#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/config/config_reader.hpp"
#include "model/families/family.hpp"

namespace attnctl {

inline constexpr std::size_t most_layers = 10'000;
inline constexpr std::size_t widest_head = 1U << 20U;

/// A family of SizesFrom::tensors: the shapes of the first layer's tensors decide (docs/attention.md).
[[nodiscard]] ModelConfig resolve_from_tensors(const FamilySpec& family, const ConfigReader& config,
                                               const Checkpoint& weights);

/// /layers and the like: at least 1, refused above most_layers before anything of that size is made.
[[nodiscard]] std::size_t resolve_layer_count(const FamilySpec& family, const ConfigReader& config);

// The parts of a configuration, in the order in which resolve_config makes them. Each throws
// Error(bad_input) that names the file and the JSON pointer.

[[nodiscard]] Activation activation_named(const std::string& name, const ConfigKeys& keys,
                                          const ConfigReader& config);
[[nodiscard]] Activation resolve_activation(const ConfigKeys& keys, const ConfigReader& config);

/// Rows of the position table that are positions, all but those up to the padding's. Nothing where the family
/// knows no longest sequence.
[[nodiscard]] std::optional<std::size_t> resolve_max_positions(const ConfigKeys& keys,
                                                               const ConfigReader& config);

/// Images and their patches; not present where the family has no keys for them.
[[nodiscard]] PatchGrid resolve_pixels(const ConfigKeys& keys, const ConfigReader& config);

/// What all norms of a model have in common.
[[nodiscard]] NormConfig resolve_norm(const FamilySpec& family, const ConfigReader& config);

/// The same as this one norm is stored; of kind none where it is not there.
[[nodiscard]] NormConfig norm_of(NormConfig norm, const NormSpec& spec);

/// What is said of a projection without a look at the file: what is there only if stored counts as absent.
[[nodiscard]] LinearParts resolve_parts(const LinearSpec& spec, const ConfigReader& config);

/// What all layers have in common; `model` has its d_model and max_positions.
[[nodiscard]] AttentionConfig resolve_attention(const FamilySpec& family, const ConfigReader& config,
                                                const ModelConfig& model);

/// A missing size is an error; none of a table of fewer rows, or of so few buckets that none is near.
[[nodiscard]] RelativeBuckets resolve_relative_buckets(const RelativeBucketSpec& spec,
                                                       const ConfigReader& config);

/// Of a layer with experts: one of them.
[[nodiscard]] MlpConfig resolve_mlp(const FamilySpec& family, const ConfigReader& config, std::size_t d_model,
                                    bool of_experts);

/// Of each layer; a count of 0 where it has one MLP.
[[nodiscard]] std::vector<ExpertsConfig> resolve_experts(const FamilySpec& family, const ConfigReader& config,
                                                         std::size_t layers);

/// attention.disentangled, and attention.scale by the number of its terms.
void resolve_disentangled(const FamilySpec& family, const ConfigReader& config, const ModelConfig& model,
                          AttentionConfig& attention);

/// Null where the configuration has none. Throws Error(bad_input) for a kernel of even size.
[[nodiscard]] std::shared_ptr<const ConvolutionConfig> resolve_convolution(const ConfigReader& config,
                                                                           const ModelConfig& model);

/// Inverse frequencies that the checkpoint holds take the place of computed ones.
void use_stored_frequencies(const FamilySpec& family, Checkpoint& weights, ModelConfig& model);

/// model.layers.
void resolve_layers(const FamilySpec& family, const ConfigReader& config, const NormConfig& norm,
                    ModelConfig& model);

[[nodiscard]] EmbeddingConfig resolve_embedding(const FamilySpec& family, const ConfigReader& config,
                                                const ModelConfig& model);

/// The decoder that reads an encoder: its layers behind those of the encoder, model.decoder, and the norm at
/// its end. `model` is complete but for it and the head.
void resolve_decoder(const FamilySpec& family, const ConfigReader& config, const NormConfig& norm,
                     const ModelSource& source, ModelConfig& model);

/// What the file has of the head; without a file (null), what a model of the family has when it was trained.
[[nodiscard]] HeadConfig resolve_head(const FamilySpec& family, const ConfigReader& config,
                                      const ModelConfig& model, Checkpoint* weights);

/// The slope of each head.
[[nodiscard]] std::vector<float> alibi_slopes(AlibiSlopes rule, std::size_t heads);

/// Which of `count` layers turn by position.
[[nodiscard]] std::vector<bool> resolve_turning_layers(const RotarySpec& spec, const ConfigReader& config,
                                                       std::size_t count);

/// Which keys each layer sees; `turning` says of each whether it has rotary position.
[[nodiscard]] std::vector<AttentionKind> resolve_windows(const WindowKeys& keys, const ConfigReader& config,
                                                         const std::vector<bool>& turning);

/// The ids that the configuration names as bos, eos, pad, cls or sep and that the vocabulary has.
[[nodiscard]] std::vector<std::int64_t> resolve_special_ids(const ConfigReader& config,
                                                            std::size_t vocabulary);

/// Throws Error(bad_input) where `whole` is not a multiple of `part`; the names are those of the keys.
void check_multiple(const ConfigReader& config, const std::string& whole_name, std::size_t whole,
                    const std::string& part_name, std::size_t part);

}  // namespace attnctl

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "input/batch.hpp"
#include "model/config/config.hpp"
#include "reference/reference.hpp"

namespace attnctl::cli {

/// The reference arrays of each input (docs/cli.md, NPZ): ids_I, and any of pattern_I, scores_I, z_I [layers,
/// heads, n, ...], output_I [layers, n, d] and logits_I [n, vocabulary]. The array `layers` lists their
/// layers. For a model with components, all names except ids, target_ids and logits start with enc_, dec_ or
/// cross_.
struct ReferenceFile {
  std::vector<std::vector<std::int64_t>> ids;  // an item is empty if the file has no ids for that input
  std::vector<std::vector<std::int64_t>> target_ids;
  std::vector<ReferencePass> passes;  // converted to float64
};

/// Throws Error(bad_input) if the file has no arrays for any input, or if shapes do not fit the model.
[[nodiscard]] ReferenceFile read_reference(const std::string& path, const ModelConfig& config);

/// Throws Error(bad_input) if the shapes of the arrays do not fit the length of the input.
void check_reference_shapes(const ReferencePass& pass, const ModelConfig& config, const Sequence& sequence,
                            const std::string& path);

}  // namespace attnctl::cli

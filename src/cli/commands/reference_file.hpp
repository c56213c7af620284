#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "input/batch.hpp"
#include "model/config/config.hpp"
#include "reference/reference.hpp"

namespace attnctl::cli {

/// The arrays of a reference for each input (cli.md, NPZ): ids_I, and what there is of pattern_I, scores_I,
/// z_I [layers, heads, n, ...], output_I [layers, n, d], logits_I [n, vocabulary]. `layers` says which layers
/// they are of. Of a model with components all but ids, target_ids and logits begin with enc_, dec_ or
/// cross_.
struct ReferenceFile {
  std::vector<std::vector<std::int64_t>> ids;  // empty ones: the file has none for that input
  std::vector<std::vector<std::int64_t>> target_ids;
  std::vector<ReferencePass> passes;  // in float64 as stored
};

/// Throws Error(bad_input): no arrays of any input, shapes that do not fit the model.
[[nodiscard]] ReferenceFile read_reference(const std::string& path, const ModelConfig& config);

/// Throws Error(bad_input) where the arrays of an input are not of its length.
void check_reference_shapes(const ReferencePass& pass, const ModelConfig& config, const Sequence& sequence,
                            const std::string& path);

}  // namespace attnctl::cli

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"
#include "reference/reference.hpp"

// The file of `verify --against`.
namespace attnctl::cli {

struct ReferenceInput {
  std::vector<std::int64_t> ids;  // empty if the file has no ids for the input
  std::vector<std::int64_t> target_ids;
  reference::ReferencePass pass;  // converted to float64
};

/// Returns the arrays of the inputs 0, 1, ... up to the first one without arrays. `path` is the file's name
/// for errors. Throws Error(bad_input) if input 0 has none, or if the axes of layers and heads do not fit the
/// model.
[[nodiscard]] std::vector<ReferenceInput> read_reference(checkpoint::Checkpoint& file,
                                                         const std::string& path,
                                                         const model::ModelConfig& config);

/// Throws Error(bad_input) if a reference array does not fit the input. Skips the layers that need a target
/// if the input has none.
void check_reference_shapes(const reference::ReferencePass& pass, const model::ModelConfig& config,
                            const input::Sequence& sequence, const std::string& path);

}  // namespace attnctl::cli

#pragma once

#include <optional>
#include <string>

#include "analysis/axial.hpp"
#include "cli/options/options.hpp"
#include "model/model.hpp"

namespace CLI {
class App;
}

// --attention KIND: what if a model attended in another way.
namespace attnctl::cli {

/// Adds --attention to a command that runs a pass.
void add_attention_option(CLI::App& command, SelectionOptions& options);

/// A kind of attention as it is asked for; `axial` is no property of a layer but a way to run over a grid.
struct AttentionChoice {
  AttentionKind kind;
  bool axial = false;
};
/// Throws Error(usage) where the kind is not known; `option` is its name.
[[nodiscard]] AttentionChoice parse_attention_choice(const std::string& option, const std::string& kind);

/// Returns the model that a run with --attention uses: with this kind of attention in the layers of --layers.
[[nodiscard]] Model with_attention_option(const Model& model, const SelectionOptions& options);

/// Where --attention is axial: the batch, read as one grid, becomes its columns and rows.
[[nodiscard]] std::optional<AxialGrid> axial_grid(const SelectionOptions& options, const InputOptions& inputs,
                                                  const Model& model, Batch& batch);

}  // namespace attnctl::cli

#pragma once

#include <optional>
#include <string>

#include "analysis/axial.hpp"
#include "cli/options/options.hpp"
#include "model/model.hpp"

namespace CLI {
class App;
}

// --attention KIND: replaces the attention of the selected layers.
namespace attnctl::cli {

/// Adds --attention to a command that runs a forward pass.
void add_attention_option(CLI::App& command, SelectionOptions& options);

/// A value of --attention. `axial` is not a property of a layer: it runs the layer over a grid.
struct AttentionChoice {
  AttentionKind kind;
  bool axial = false;
};
/// Throws Error(usage) for an unknown kind. `option` is the name of the option, for the message.
[[nodiscard]] AttentionChoice parse_attention_choice(const std::string& option, const std::string& kind);

/// Returns the model that a run with --attention uses: with this kind of attention in the layers of --layers.
[[nodiscard]] Model with_attention_option(const Model& model, const SelectionOptions& options);

/// If --attention is axial, replaces the batch, read as one grid, by its columns and rows, and returns the
/// grid. Returns nullopt for any other kind.
[[nodiscard]] std::optional<AxialGrid> axial_grid(const SelectionOptions& options, const InputOptions& inputs,
                                                  const Model& model, Batch& batch);

}  // namespace attnctl::cli

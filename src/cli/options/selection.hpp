#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/axial.hpp"
#include "cli/options/options.hpp"
#include "forward/run.hpp"
#include "inspect/selection.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"

namespace attnctl::cli {

using inspect::parse_ranges;

/// Returns the heads that --component, --layers and --heads select.
[[nodiscard]] inline Selection select_heads(const SelectionOptions& options, const ModelConfig& config,
                                            bool targets = true) {
  return inspect::select_heads({options.component, options.layers, options.heads}, config, targets);
}

/// Adds --attention to a command that runs a forward pass.
void add_attention_option(Command& command, SelectionOptions& options);

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

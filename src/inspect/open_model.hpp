#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "forward/run.hpp"
#include "input/sequences.hpp"
#include "model/model.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

// Opens a model, and selects its heads.
namespace attnctl::inspect {

/// A model with its tensors, its vocabulary and its tokenizer. The vocabulary comes from the configuration
/// or, if the configuration has none, from the tokenizer. The tokenizer is loaded when the first text is
/// encoded.
struct OpenModel {
  model::Model model;
  tokenizer::Vocabulary vocabulary;
  input::TextEncoder encoder;
};
/// Opens a model: a directory, a weights file, or a name in the local Hugging Face cache. `config` is the
/// path of a configuration file to use instead of the model's own. `adapter` is the directory of a LoRA
/// adapter to add to the weights (checkpoint::apply_adapter).
[[nodiscard]] OpenModel open_model(const std::string& model, const std::optional<std::string>& config,
                                   Warnings& warnings, const std::optional<std::string>& adapter = {});

/// Returns where to find the tokenizer of the MODEL argument: its directory and, if MODEL is a file that
/// contains a tokenizer, that tokenizer.
[[nodiscard]] tokenizer::TokenizerOrigin tokenizer_origin(const std::string& model);

/// The options that select heads, as comma-separated lists. An empty list selects everything; the run uses
/// the heads that all three lists select.
struct HeadChoice {
  std::string component;    // "encoder,cross"
  std::string layers;       // "0,3-5"; each component has its own numbers from 0
  std::string heads;        // "0.1,2.3", "0:1" or "L0H1"; "enc.0.1" if the model has components
  std::string option = {};  // the option to name in errors; empty: --layers or --heads
};

/// Returns the selected heads in ascending order. `targets` is false if the run has no targets; then only the
/// encoder of an encoder-decoder model can be selected. Throws Error(usage) if a list is malformed, if it
/// names a component, layer or head that the model does not have or that needs targets, or if no head is
/// left.
[[nodiscard]] forward::Selection select_heads(const HeadChoice& choice, const model::ModelConfig& config,
                                              bool targets = true);

/// Returns the layers that `choice` selects by component and number, as ascending indices into
/// ModelConfig::layers. `targets` and the errors are those of select_heads().
[[nodiscard]] std::vector<std::size_t> select_layers(const HeadChoice& choice,
                                                     const model::ModelConfig& config, bool targets = true);

}  // namespace attnctl::inspect

#pragma once

#include <optional>
#include <string>

#include "base/warnings.hpp"
#include "input/sequences.hpp"
#include "model/model.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::inspect {

/// A model with its tensors, its vocabulary and its tokenizer. The vocabulary comes from the configuration
/// or, if that has none, from the tokenizer files. The tokenizer is loaded when the first text is encoded.
struct OpenModel {
  model::Model model;
  tokenizer::Vocabulary vocabulary;
  input::TextEncoder encoder;
};
/// Opens a model: a directory, a weights file, or a name in the local Hugging Face cache. `config` is the
/// path of a configuration file to use instead of the one next to the model.
[[nodiscard]] OpenModel open_model(const std::string& model, const std::optional<std::string>& config,
                                   Warnings& warnings);

/// Returns where to find the tokenizer of the MODEL argument: its directory and, if MODEL is a file that
/// contains a tokenizer, that tokenizer.
[[nodiscard]] tokenizer::TokenizerOrigin tokenizer_origin(const std::string& model);

}  // namespace attnctl::inspect

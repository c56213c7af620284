#pragma once

#include <optional>
#include <string>

#include "base/warnings.hpp"
#include "input/sequences.hpp"
#include "model/model.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::inspect {

/// An opened and bound model, its vocabulary and its tokenizer. The vocabulary comes from the model's
/// directory or configuration. The tokenizer is opened at the first text input.
struct OpenModel {
  Model model;
  Vocabulary vocabulary;
  TextEncoder encoder;
};
/// `config` is a configuration file to use instead of the model's.
[[nodiscard]] OpenModel open_model(const std::string& model, const std::optional<std::string>& config,
                                   Warnings& warnings);

/// Returns the directory of MODEL and, if MODEL is a file that contains a tokenizer, that tokenizer.
[[nodiscard]] TokenizerOrigin tokenizer_origin(const std::string& model);

}  // namespace attnctl::inspect

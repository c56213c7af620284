#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "analysis/axial.hpp"
#include "base/matrix_view.hpp"
#include "base/warnings.hpp"
#include "cli/options/options.hpp"
#include "cli/session.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "input/text_input.hpp"
#include "inspect/selection.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"

namespace attnctl::cli {

/// Returns the inputs of the command line in their order, read, tokenized and completed. Opens the model's
/// tokenizer if there is text. Throws Error(usage) without inputs, if standard input is named twice,
/// or if --keys has no --embeddings. Also throws Error(bad_input) and Error(environment).
[[nodiscard]] Batch read_inputs(const InputOptions& options, OpenModel& open, Warnings& warnings);

/// Returns the format of an --input: by its extension, or from --input-format if the path is "-". Throws
/// Error(usage) or Error(bad_input).
[[nodiscard]] InputFormat input_format(const std::string& path, const InputOptions& options);

/// Throws Error(usage) without inputs, or if standard input is named twice. `kinds` lists the accepted
/// kinds of input, for the message.
void require_inputs(const InputOptions& options, const std::string& kinds);

/// Returns the files that a command reads, for check_outputs(): --config, the inputs, and the weights,
/// configuration and tokenizer of MODEL. Replaces a hub name by its snapshot in the cache, and "-" by
/// /dev/stdin, which may be a file. Throws Error if the model does not exist.
[[nodiscard]] std::vector<std::filesystem::path> files_read(const ModelOptions& model,
                                                            const InputOptions& inputs = {});

/// Reproducible inputs for a model: the same in every run and on every machine.
class SeededInputs {
 public:
  explicit SeededInputs(const ModelConfig& config) : config_(config) {}

  /// Returns random ids, or an image if the model reads images, or embeddings in -1..1 if it has no embedding
  /// table. An image ignores `length`: it has one token per patch plus one. Adds a target of `target_length`
  /// ids if the model has a decoder that reads an encoder.
  [[nodiscard]] Sequence next(std::size_t length, std::size_t target_length);

 private:
  std::vector<std::int64_t> ids(std::size_t length, std::size_t vocabulary);
  void fill(std::span<float> values);
  OwnedMatrix<float> matrix(std::size_t rows, std::size_t columns);

  const ModelConfig& config_;
  std::mt19937 random_{20170612};  // the standard fixes its sequence, but not that of distributions
};

// --- Heads and attention

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

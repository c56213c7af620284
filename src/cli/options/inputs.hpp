#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/axial.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/matrix_view.hpp"
#include "base/numbers.hpp"
#include "checkpoint/checkpoint.hpp"
#include "cli/options/options.hpp"
#include "input/batch.hpp"
#include "input/text_input.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"

namespace attnctl::cli {

using inspect::OpenModel;
[[nodiscard]] inline OpenModel open_model(const ModelOptions& options, Warnings& warnings) {
  return inspect::open_model(options.model, options.config, warnings, options.adapter);
}

/// An array that was read from a file and converted to T, which is float or double.
template <typename T>
struct FileArray {
  std::string file;          // path, escaped for messages
  DType dtype = DType::f32;  // type in the file
  Shape shape;
  std::vector<T> values;

  FileArray(const std::string& path, const checkpoint::TensorView& tensor)
      : file(escaped(path)),
        dtype(tensor.dtype),
        shape(tensor.shape),
        values(checked_product(shape).value()) {
    convert(dtype, tensor.bytes, std::span(values));
  }
  /// Returns the matrix with this index. Its rows and columns are the last two axes of the array.
  [[nodiscard]] OwnedMatrix<T> matrix(std::size_t index) const {
    OwnedMatrix<T> matrix(shape[shape.size() - 2], shape.back());
    const std::size_t size = matrix.values().size();
    std::ranges::copy(std::span(values).subspan(index * size, size), matrix.values().begin());
    return matrix;
  }
  [[noreturn]] void refuse_shape(const std::string& need) const {
    fail(Status::bad_input, "{}: got shape {}, need {}", file, attnctl::to_string(shape), need);
  }
};
template <typename T>
[[nodiscard]] FileArray<T> read_npy(const std::string& path) {
  Warnings unused;
  return {path, checkpoint::open_checkpoint(path, unused)->tensor(0)};
}

/// Returns the input of a text and its --text-pair, if any. Reads the text "-" from standard input, without
/// its last line end. Throws Error(bad_input) if a text is not UTF-8.
[[nodiscard]] input::TextInput text_input(const InputItem& item);

/// Reads the inputs of the command line in their order, with their targets and masks, and completes them with
/// finish_batch(). Applies --truncate. Opens the model's tokenizer if an input or a target is text. Throws
/// Error(usage) without inputs and for contradictory options, Error(bad_input) for an invalid input, and
/// Error(environment) if a file cannot be read.
[[nodiscard]] input::Batch read_inputs(const InputOptions& options, OpenModel& open, Warnings& warnings);

/// The values of two options of which at most one is given: a text, or token ids. `name` is that of the
/// options in error messages: --NAME TEXT or --NAME-text TEXT, and --NAME-ids IDS.
struct SingleInput {
  std::string name;
  std::optional<std::string> text = {}, ids = {};

  [[nodiscard]] bool given() const { return text || ids; }
};

/// Adds --target-text and --target-ids for a command of one input per run.
void add_target_input_options(Command& command, SingleInput& target);
/// Returns one input with its target, complete and checked for the model. Throws Error(usage) unless one of
/// both options of the input is given (a text must not be empty), and one of both options of the target if
/// the model has a decoder. Throws Error(bad_input) for a text if the model has no tokenizer, or for a wrong
/// id.
[[nodiscard]] input::Sequence single_input(const SingleInput& input, const SingleInput& target,
                                           OpenModel& open);

/// Returns the id of a token of the vocabulary, or of a text that is one token. Throws Error(usage), which
/// names `option`, for any other text, and Error(bad_input) if the model has no tokenizer.
[[nodiscard]] std::int64_t answer_token(const std::string& option, const std::string& text, OpenModel& open);

/// Returns the format of --input-format, if given; otherwise that of the extension of `path` before .gz or
/// .zst, or of the first line of "-", standard input. Throws Error(bad_input) for other extensions.
[[nodiscard]] input::InputFormat input_format(const std::string& path, const InputOptions& options);

/// Throws Error(usage) without inputs, or if standard input is named more than once. `kinds` names the
/// possible inputs in the message.
void require_inputs(const InputOptions& options, const std::string& kinds);

/// Returns the files that a command reads, for check_outputs(): --config, the files of the inputs and masks,
/// and the weights, configuration and tokenizer of MODEL. Some of them may not exist. "-" becomes /dev/stdin,
/// because standard input may be a file. Throws Error if the model does not exist.
[[nodiscard]] std::vector<std::filesystem::path> files_read(const CommandOptions& options);

/// Returns `count` random inputs for a model, which are the same in every run and on every machine. A model
/// that reads images gets images; their number of tokens does not depend on `length`. Any other model gets
/// `length` ids per input, or `length` embeddings with values in -1..1 if the model has no embedding table.
/// Keys and values get separate embeddings if their widths require it. For an encoder-decoder model, each
/// input has a target of `target_length` ids.
[[nodiscard]] std::vector<input::Sequence> seeded_inputs(const model::ModelConfig& config, std::size_t count,
                                                         std::size_t length, std::size_t target_length);

void add_attention_option(Command& command, SelectionOptions& options);

/// Parses a kind of attention. Returns nullopt for axial attention, which changes the batch and not the
/// model. Throws Error(usage) for an unknown kind; the error message names `option`.
[[nodiscard]] std::optional<model::AttentionKind> parse_attention_option(const std::string& option,
                                                                         const std::string& kind);

/// Returns the model with the kind of --attention in the layers that --component and --layers select
/// (default: all). Returns the model unchanged for axial attention or without --attention.
[[nodiscard]] model::Model with_attention_option(const model::Model& model, const SelectionOptions& options);

/// If --attention is axial, reads the batch as one grid of embeddings, replaces it by the columns and rows of
/// the grid, and returns the size of the grid; throws Error(usage) unless the only input is one --embeddings.
/// Returns nullopt for any other kind, or without --attention.
[[nodiscard]] std::optional<analysis::AxialGrid> axial_grid(const SelectionOptions& options,
                                                            const InputOptions& inputs,
                                                            const model::Model& model, input::Batch& batch);

}  // namespace attnctl::cli

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/warnings.hpp"
#include "cli/options/options.hpp"
#include "cli/session.hpp"
#include "input/batch.hpp"
#include "input/text_input.hpp"

namespace attnctl::cli {

/// The inputs of the command line in their order, read, tokenized and completed. Opens the model's tokenizer
/// where there is text. Throws Error: usage (none at all, standard input twice, --keys that no --embeddings
/// goes with), bad_input, environment.
[[nodiscard]] Batch read_inputs(const InputOptions& options, OpenModel& open, Warnings& warnings);

/// The format of an --input: by its extension, of "-" as --input-format says. Throws Error: usage, bad_input.
[[nodiscard]] InputFormat input_format(const std::string& path, const InputOptions& options);

/// Throws Error(usage) where there is no input, or standard input is to be read twice; `kinds` names what
/// there might be.
void require_inputs(const InputOptions& options, const std::string& kinds);

/// Returns the files that a command reads: --config, MODEL's weights, configuration and tokenizer, and the
/// inputs, for check_outputs(). A name of the hub stands for its snapshot in the cache, "-" for /dev/stdin,
/// which may be a file. Throws Error if there is no such model.
[[nodiscard]] std::vector<std::filesystem::path> files_read(const ModelOptions& model,
                                                            const InputOptions& inputs = {});

}  // namespace attnctl::cli

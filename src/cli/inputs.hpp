#pragma once

#include "attnctl/input/batch.hpp"
#include "attnctl/tokenizer/vocabulary.hpp"

#include <filesystem>
#include <vector>

#include "cli/options.hpp"

namespace attnctl::cli {

/// The inputs of the command line in their order, read and completed. Throws Error: usage (none at all,
/// standard input twice, --keys that no --embeddings goes with), bad_input, environment.
[[nodiscard]] Batch read_inputs(const InputOptions& options, const Vocabulary& vocabulary);

/// The files that the options name, "-" left out.
[[nodiscard]] std::vector<std::filesystem::path> input_files(const InputOptions& options);

}  // namespace attnctl::cli

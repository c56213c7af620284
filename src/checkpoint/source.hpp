#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/warnings.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl {

/// The configuration, weights and directory that the MODEL argument of a command names.
struct ModelSource {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  std::string given;  // MODEL, as on the command line
  /// The directory of config.json and the tokenizer files. Empty if MODEL is a weights file and its
  /// configuration is not the config.json next to it.
  std::filesystem::path directory;
  std::filesystem::path config_path;  // file of the configuration, for messages; may be the weights file
  /// The bytes of the configuration file. Their hash identifies the model. If the configuration is inside the
  /// weights file, this is its JSON as text.
  std::string config_text;
  nlohmann::ordered_json config;        // a JSON object
  std::unique_ptr<Checkpoint> weights;  // null if only the configuration was requested
};

struct SourceOptions {
  std::optional<std::filesystem::path> config;  // --config FILE, used instead of the model's config.json
  bool need_weights = true;
};

/// Opens the files of MODEL, which is one of:
[[nodiscard]] ModelSource open_model_source(const std::string& model, const SourceOptions& options,
                                            Warnings& warnings);

/// Returns the directory of MODEL's files without reading the files. The directory is MODEL itself, or
/// contains the file MODEL, or is the model's snapshot in the local Hugging Face cache. Throws
/// Error(environment) if MODEL cannot be found.
[[nodiscard]] std::filesystem::path model_directory(const std::string& model);

/// Returns the paths of config.json and of the weights files of MODEL. If MODEL is a directory or an index of
/// shards, the result has every file of the directory whose extension is that of a weights file. Opens no
/// file. Throws like model_directory().
[[nodiscard]] std::vector<std::filesystem::path> checkpoint_files(const std::string& model);

}  // namespace attnctl

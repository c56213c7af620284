#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/warnings.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl::checkpoint {

/// The configuration, weights and directory that the MODEL argument of a command names.
struct ModelSource {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  std::string given;  // MODEL, as on the command line
  /// The directory of config.json and the tokenizer files. Empty if MODEL is a weights file and its
  /// configuration comes from --config or from inside the weights file.
  std::filesystem::path directory;
  std::filesystem::path config_path;  // file of the configuration; may be the weights file
  /// The bytes of the configuration file, or the configuration as JSON text if it is inside the weights file.
  /// The hash of these bytes is part of the identity of a study.
  std::string config_text;
  nlohmann::ordered_json config;  // a JSON object
  std::unique_ptr<Checkpoint> weights;
};

/// Opens the files of MODEL. `config` (--config FILE) replaces the model's configuration. MODEL is one of:
/// - an existing directory in Hugging Face layout;
/// - a weights file. The configuration is inside the file, or is config.json next to the file;
/// - a name ("org/name" or "name") in the local Hugging Face cache. The cache directory is HF_HUB_CACHE,
///   otherwise HF_HOME/hub, otherwise XDG_CACHE_HOME/huggingface/hub, otherwise ~/.cache/huggingface/hub.
///   Nothing is downloaded.
///
/// The weights file of a directory is the first of these that exists: model.safetensors,
/// model.safetensors.index.json, model.npz, model.json, the only .safetensors, .npz or .gguf file of the
/// directory (several are an error), pytorch_model.bin, pytorch_model.bin.index.json. Throws
/// Error(environment) if MODEL or `config` cannot be found or a file cannot be opened, Error(bad_input) if
/// another required file is missing or a file is invalid, and Error(limit) like open_checkpoint().
[[nodiscard]] ModelSource open_model_source(const std::string& model,
                                            const std::optional<std::filesystem::path>& config,
                                            Warnings& warnings);

/// Returns the directory of MODEL's files. The directory is MODEL itself, or contains the file MODEL, or is
/// the model's snapshot in the local Hugging Face cache, which the file refs/main of the cache names. Throws
/// Error(environment) if MODEL cannot be found, and Error(bad_input) if refs/main or the snapshot is missing
/// or invalid.
[[nodiscard]] std::filesystem::path model_directory(const std::string& model);

/// Returns the paths of the files of MODEL that outputs must not replace. These are config.json in
/// model_directory(), which need not exist, and the weights file (an empty path if the directory has no
/// suitable one). Unless MODEL is a weights file without shards, also returns every .safetensors, .bin, .pt,
/// .pth, .gguf and .index.json file of the directory, and of its subdirectories if the weights are shards. If
/// MODEL is a name in the cache, also returns its file refs/main. Throws like model_directory().
[[nodiscard]] std::vector<std::filesystem::path> checkpoint_files(const std::string& model);

}  // namespace attnctl::checkpoint

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
  /// configuration is not the config.json next to it.
  std::filesystem::path directory;
  std::filesystem::path config_path;  // file of the configuration, for messages; may be the weights file
  /// The bytes of the configuration file. Their hash is part of the identity of a study, next to the hash of
  /// the weights. If the configuration is inside the weights file, this is its JSON as text.
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
/// directory, pytorch_model.bin, pytorch_model.bin.index.json. Throws Error(environment) if MODEL cannot be
/// found or opened, and Error(bad_input) if a required file is missing or invalid.
[[nodiscard]] ModelSource open_model_source(const std::string& model,
                                            const std::optional<std::filesystem::path>& config,
                                            Warnings& warnings);

/// Returns the directory of MODEL's files without reading the files. The directory is MODEL itself, or
/// contains the file MODEL, or is the model's snapshot in the local Hugging Face cache. Throws
/// Error(environment) if MODEL cannot be found.
[[nodiscard]] std::filesystem::path model_directory(const std::string& model);

/// Returns the paths of config.json and of the weights file of MODEL, whether they exist or not. Unless MODEL
/// is a single weights file, also returns every .safetensors, .bin, .pt, .pth, .gguf and .index.json file of
/// the directory, and of its subdirectories if the weights are shards. If MODEL is a name in the cache, also
/// returns its file refs/main. Opens no file. Throws like model_directory().
[[nodiscard]] std::vector<std::filesystem::path> checkpoint_files(const std::string& model);

}  // namespace attnctl::checkpoint

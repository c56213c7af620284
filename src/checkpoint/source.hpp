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

/// The files that the MODEL argument of a command names.
struct ModelSource {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  std::string given;  // as given on the command line
  /// The directory of config.json and the tokenizer files. Empty for a single weights file without a
  /// config.json next to it, or with another configuration.
  std::filesystem::path directory;
  std::filesystem::path config_path;  // for messages; the weights file itself if the configuration is inside
  /// The configuration's bytes, whose hash identifies the model; serialized if it is inside the weights file.
  std::string config_text;
  nlohmann::ordered_json config;        // an object
  std::unique_ptr<Checkpoint> weights;  // null if only the configuration was requested
};

struct SourceOptions {
  std::optional<std::filesystem::path> config;  // --config FILE, instead of the directory's own
  bool need_weights = true;
};

/// Resolves MODEL to one of:
/// - an existing directory in Hugging Face layout;
/// - a weights file, with --config, a configuration inside, or config.json next to it;
/// - a name ("org/name" or "name") in the local Hugging Face cache: HF_HUB_CACHE, otherwise HF_HOME/hub,
///   XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub. Nothing is downloaded.
/// The weights of a directory are model.safetensors, otherwise model.safetensors.index.json, model.npz or
/// model.json, otherwise its only .safetensors, .npz or .gguf file, otherwise pytorch_model.bin or
/// pytorch_model.bin.index.json. Throws Error: environment (4) if MODEL cannot be found or opened, bad_input
/// (3) if a required file is missing or invalid.
[[nodiscard]] ModelSource open_model_source(const std::string& model, const SourceOptions& options,
                                            Warnings& warnings);

/// Returns the directory of MODEL's files without reading them: MODEL itself, the directory of the file, or
/// the snapshot in the local Hugging Face cache. Throws Error(environment) if there is none.
[[nodiscard]] std::filesystem::path model_directory(const std::string& model);

/// Returns the weights files of MODEL and its config.json: with a directory or an index of shards, every file
/// in the directory that has the extension of a checkpoint. Opens none of them. Throws as model_directory()
/// does.
[[nodiscard]] std::vector<std::filesystem::path> checkpoint_files(const std::string& model);

}  // namespace attnctl

#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "base/warnings.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl {

/// What the MODEL argument of a command stands for.
struct ModelSource {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  std::string given;  // as given on the command line
  /// Where config.json and the tokenizer's files are; empty for one weights file that has no config.json
  /// beside it, or another configuration than that.
  std::filesystem::path directory;
  std::filesystem::path config_path;  // for errors; the weights file itself where the configuration is inside
  /// The configuration's bytes (its hash identifies the model); written anew where it is inside the weights.
  std::string config_text;
  nlohmann::ordered_json config;        // an object
  std::unique_ptr<Checkpoint> weights;  // null where only the configuration was asked for
};

struct SourceOptions {
  std::optional<std::filesystem::path> config;  // --config FILE, in place of the directory's own
  bool need_weights = true;
};

/// Resolves MODEL: an existing directory in Hugging Face layout; a weights file (with --config, or a
/// configuration inside, or config.json beside it); else a name ("org/name" or "name") in the local Hugging
/// Face cache (HF_HUB_CACHE, then HF_HOME/hub, then XDG_CACHE_HOME/huggingface/hub, then
/// ~/.cache/huggingface/hub: models--ORG--NAME/refs/main, snapshots/), never the network. The weights of a
/// directory are model.safetensors, else model.safetensors.index.json, model.npz or model.json, else its only
/// .safetensors, .npz or .gguf file, else pytorch_model.bin or pytorch_model.bin.index.json. Throws Error:
/// environment (4) where MODEL itself cannot be found or opened, bad_input (3) where a file that its layout
/// requires is missing or wrong.
[[nodiscard]] ModelSource open_model_source(const std::string& model, const SourceOptions& options,
                                            Warnings& warnings);

/// The directory of MODEL's files, which are not looked at: itself, that of a file, or that of a name in the
/// local Hugging Face cache. Throws Error(environment) where there is none.
[[nodiscard]] std::filesystem::path model_directory(const std::string& model);

}  // namespace attnctl

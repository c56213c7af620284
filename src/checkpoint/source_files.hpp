#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attnctl {

/// Returns the weights files of MODEL and its config.json: with a directory or an index of shards, every file
/// in the directory that has the extension of a checkpoint. Opens none of them. Throws what model_directory()
/// throws.
[[nodiscard]] std::vector<std::filesystem::path> checkpoint_files(const std::string& model);

}  // namespace attnctl

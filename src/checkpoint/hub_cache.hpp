#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace attnctl {

/// "org/name" or "name", of letters, digits, '-', '_' and '.', as the hub names models.
[[nodiscard]] bool is_hub_name(std::string_view name);

/// The local Hugging Face cache: HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
/// ~/.cache/huggingface/hub; empty where none of these variables nor HOME is set.
[[nodiscard]] std::filesystem::path hub_cache();

/// The directory of the revision that refs/main names; nullopt where the cache does not know the model.
/// Throws Error(bad_input) where it is there and incomplete.
[[nodiscard]] std::optional<std::filesystem::path> find_in_hub_cache(const std::filesystem::path& cache,
                                                                     std::string_view name);

}  // namespace attnctl

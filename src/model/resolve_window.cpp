#include "attnctl/base/error.hpp"

#include "model/resolve.hpp"

namespace attnctl {
namespace {

constexpr std::string_view full = "full_attention";
constexpr std::string_view sliding = "sliding_attention";

/// The width that all windows have; nullopt where the configuration has switched them off.
std::optional<std::size_t> resolve_size(const WindowKeys& keys, const ConfigReader& config) {
  if (!keys.only_if.empty() && !config.flag(keys.only_if).value_or(false)) return std::nullopt;
  if (config.is_null(keys.size)) return std::nullopt;
  if (const auto size = config.size(std::span(&keys.size, 1))) return size;
  return keys.otherwise == 0 ? std::nullopt : std::optional(keys.otherwise);
}

/// Which layers the list says have a window; nullopt without a list.
std::optional<std::vector<bool>> listed_layers(const std::string& key, const ConfigReader& config,
                                               std::size_t count) {
  const auto value = key.empty() ? std::nullopt : config.find(key);
  if (!value) return std::nullopt;
  if (!value->json->is_array() || value->json->size() != count)
    config.refuse(*value, fmt::format("a list of {}, the type of each layer", count));
  std::vector<bool> windowed;
  for (const auto& type : *value->json) {
    if (type != full && type != sliding)
      config.refuse_unsupported({value->name, &type}, fmt::format("{}, {}", full, sliding));
    windowed.push_back(type == sliding);
  }
  return windowed;
}

}  // namespace

std::vector<AttentionKind> resolve_windows(const WindowKeys& keys, const ConfigReader& config,
                                           std::size_t count) {
  const auto size = resolve_size(keys, config);
  auto windowed = listed_layers(keys.layer_types, config, count);
  if (!windowed) {
    const std::size_t first =
        keys.first.empty() ? 0 : config.index(std::span(&keys.first, 1)).value_or(keys.first_otherwise);
    windowed.emplace(count, false);
    for (std::size_t i = first; size && i < count; ++i) (*windowed)[i] = true;
  }
  std::vector<AttentionKind> kinds(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!(*windowed)[i]) continue;
    if (!size) {
      config.refuse(
          *config.find(keys.layer_types),
          fmt::format("{} alone, or a width ({}) that is switched on", full, config.pointer(keys.size)));
    }
    kinds[i] = {AttentionKind::Rule::window, *size};
  }
  return kinds;
}

}  // namespace attnctl

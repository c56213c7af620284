#include <algorithm>

#include "base/error.hpp"
#include "model/config/resolve.hpp"

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

/// The same by runs: [[type, ...], times], each repeated, one after the other.
std::optional<std::vector<bool>> layers_of_runs(const std::string& key, const ConfigReader& config,
                                                std::size_t count) {
  const auto value = key.empty() ? std::nullopt : config.find(key);
  if (!value) return std::nullopt;
  const auto need = fmt::format("a list of [[\"global\" or \"local\", ...], times], {} types in all", count);
  std::vector<bool> windowed;
  if (!value->json->is_array()) config.refuse(*value, need);
  for (const auto& run : *value->json) {
    if (!run.is_array() || run.size() != 2 || !run[0].is_array() || run[0].empty() ||
        !run[1].is_number_unsigned() || run[1].get<std::uint64_t>() > count) {
      config.refuse(*value, need);
    }
    for (std::uint64_t time = 0; time < run[1].get<std::uint64_t>(); ++time) {
      for (const auto& type : run[0]) {
        if (type != "global" && type != "local")
          config.refuse_unsupported({value->name, &type}, "global, local");
        windowed.push_back(type == "local");
      }
      if (windowed.size() > count) config.refuse(*value, need);
    }
  }
  if (windowed.size() != count) config.refuse(*value, need);
  return windowed;
}

/// What the family does without a list.
std::vector<bool> usual_layers(const WindowKeys& keys, const ConfigReader& config,
                               const std::vector<bool>& turning) {
  const std::size_t count = turning.size();
  std::vector<bool> windowed(count, true);
  for (std::size_t i = 0; keys.unturned_only && i < count; ++i) windowed[i] = !turning[i];
  if (keys.period_otherwise > 0) {
    const std::size_t period = config.size({keys.period, keys.period_otherwise});
    for (std::size_t i = 0; i < count; ++i) windowed[i] = (keys.full_first ? i : i + 1) % period != 0;
  }
  if (keys.first.empty()) return windowed;
  const std::size_t first = config.index(std::span(&keys.first, 1)).value_or(keys.first_otherwise);
  for (std::size_t i = 0; i < count; ++i) {
    if (keys.below ? i >= first : i < first) windowed[i] = false;
  }
  return windowed;
}

}  // namespace

std::vector<AttentionKind> resolve_windows(const WindowKeys& keys, const ConfigReader& config,
                                           const std::vector<bool>& turning) {
  const std::size_t count = turning.size();
  const auto size = resolve_size(keys, config);
  auto windowed = listed_layers(keys.layer_types, config, count);
  if (!windowed) windowed = layers_of_runs(keys.runs, config, count);
  if (!windowed) windowed = size ? usual_layers(keys, config, turning) : std::vector<bool>(count, false);
  std::vector<AttentionKind> kinds(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!(*windowed)[i]) continue;
    if (!size) {
      config.refuse(
          *config.find(config.find(keys.layer_types) ? keys.layer_types : keys.runs),
          fmt::format("{} alone, or a width ({}) that is switched on", full, config.pointer(keys.size)));
    }
    kinds[i] = {AttentionKind::Rule::window, keys.both_sides ? *size / 2 + 1 : *size};
  }
  return kinds;
}

}  // namespace attnctl

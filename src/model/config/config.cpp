#include "model/config/config.hpp"

#include <algorithm>
#include <limits>

#include <fmt/core.h>

#include "base/text.hpp"

namespace attnctl::model {
namespace {

using Rule = AttentionKind::Rule;

struct KindName {
  Rule rule;
  std::string_view name;
  bool sized;
};
constexpr KindName kKindNames[] = {{Rule::full, "full", false},
                                   {Rule::window, "window", true},
                                   {Rule::block, "block", true},
                                   {Rule::strided, "strided", true},
                                   {Rule::linear, "linear", false}};

}  // namespace

std::string_view name_of(Component component) {
  constexpr std::string_view kNames[] = {"", "enc", "dec", "cross"};
  return kNames[static_cast<std::size_t>(component)];
}

std::optional<AttentionKind> parse_attention_kind(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto* row = std::ranges::find(kKindNames, text.substr(0, colon), &KindName::name);
  if (row == std::end(kKindNames) || row->sized != (colon != std::string_view::npos)) return std::nullopt;
  if (!row->sized) return AttentionKind{row->rule, 0};
  const auto size = parse_number(text.substr(colon + 1));
  if (!size || *size == 0 || *size > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return AttentionKind{row->rule, *size};
}

std::string to_string(const AttentionKind& kind) {
  const auto* row = std::ranges::find(kKindNames, kind.rule, &KindName::rule);
  return row->sized ? fmt::format("{}:{}", row->name, kind.size) : std::string(row->name);
}

std::size_t ModelConfig::layers_of(Component component) const {
  return static_cast<std::size_t>(std::ranges::count(layers, component, &LayerConfig::component));
}

bool ModelConfig::position_in_scores() const {
  return std::ranges::any_of(layers, [](const LayerConfig& layer) {
    return layer.attention.rotary != nullptr || layer.attention.alibi != nullptr ||
           layer.attention.relative_buckets != nullptr || layer.attention.disentangled != nullptr;
  });
}

std::string layer_name(const ModelConfig& config, std::size_t layer) {
  const LayerConfig& found = config.layers.at(layer);
  if (found.component == Component::none) return std::to_string(found.number);
  return fmt::format("{}.{}", name_of(found.component), found.number);
}

std::string head_name(const ModelConfig& config, HeadId head) {
  return fmt::format("{}.{}", layer_name(config, head.layer), head.head);
}

}  // namespace attnctl::model

#include "model/config/attention_kind.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "base/text.hpp"

namespace attnctl {
namespace {

using Rule = AttentionKind::Rule;

struct RuleRow {
  Rule rule;
  std::string_view name;
  bool sized;
};
constexpr std::array rules = {RuleRow{Rule::full, "full", false}, RuleRow{Rule::window, "window", true},
                              RuleRow{Rule::block, "block", true}, RuleRow{Rule::strided, "strided", true},
                              RuleRow{Rule::linear, "linear", false}};

constexpr std::size_t largest_kind_size = std::numeric_limits<std::uint32_t>::max();

}  // namespace

std::optional<AttentionKind> parse_attention_kind(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto* row =
      std::find_if(rules.begin(), rules.end(), [&](const RuleRow& each) { return each.name == name; });
  if (row == rules.end() || row->sized != (colon != std::string_view::npos)) return std::nullopt;
  AttentionKind kind{row->rule, 0};
  if (!row->sized) return kind;
  const auto size = parse_number(text.substr(colon + 1));
  if (!size || *size == 0 || *size > largest_kind_size) return std::nullopt;
  kind.size = *size;
  return kind;
}

std::string to_string(const AttentionKind& kind) {
  const auto* row =
      std::find_if(rules.begin(), rules.end(), [&](const RuleRow& each) { return each.rule == kind.rule; });
  std::string text(row->name);
  if (row->sized) text += ':' + std::to_string(kind.size);
  return text;
}

}  // namespace attnctl

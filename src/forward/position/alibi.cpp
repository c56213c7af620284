#include "forward/position/alibi.hpp"

#include <bit>
#include <cstdint>

namespace attnctl::forward {
namespace {

/// To the nearest bfloat16, of two as near the even one. For finite numbers.
float rounded_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounding = 0x7FFFU + ((bits >> 16U) & 1U);
  return std::bit_cast<float>((bits + rounding) & 0xFFFF0000U);
}

}  // namespace

Alibi::Alibi(const AttentionConfig& config, const Sequence& sequence, std::size_t head) {
  if (config.alibi == nullptr) return;
  const AlibiConfig& alibi = *config.alibi;
  const float slope = alibi.rounded ? rounded_to_bfloat16(alibi.slopes[head]) : alibi.slopes[head];
  const bool counts = alibi.counts_visible && !sequence.key_visible.empty();
  std::size_t next = 0;
  added_.resize(sequence.keys());
  for (std::size_t j = 0; j < added_.size(); ++j) {
    const bool hidden = counts && sequence.key_visible[j] == 0;
    auto place = static_cast<float>(hidden ? 0 : next);
    if (alibi.from_last) place -= static_cast<float>(added_.size() - 1);
    const float bias = slope * (alibi.rounded ? rounded_to_bfloat16(place) : place);
    if (!hidden) ++next;
    added_[j] = alibi.rounded ? static_cast<float>(config.scale * double{rounded_to_bfloat16(bias)}) : bias;
  }
}

void Alibi::add(KeySteps keys, std::span<float> scores) const {
  if (added_.empty()) return;
  for (std::size_t t = 0; t < keys.count; ++t) scores[t] += added_[keys.first + t * keys.step];
}

}  // namespace attnctl::forward

#include "forward/attention/visibility.hpp"

#include <algorithm>
#include <limits>

namespace attnctl::forward {
namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

using Rule = AttentionKind::Rule;

/// The keys of queries [first, last] as the kind alone has them; those of strided attention that are near.
KeyRange range_of(const AttentionKind& kind, std::size_t first, std::size_t last, std::size_t keys) {
  switch (kind.rule) {
    case Rule::window:
    case Rule::strided:
      return {first >= kind.size ? first - kind.size + 1 : 0, last + kind.size};
    case Rule::block:
      return {first / kind.size * kind.size, (last / kind.size + 1) * kind.size};
    case Rule::full:
    case Rule::linear:
      break;
  }
  return {0, keys};
}

KeyRange clipped(KeyRange range, std::size_t end) {
  const std::size_t last = std::min(range.last, end);
  return {std::min(range.first, last), last};
}

}  // namespace

Visibility::Visibility(const AttentionConfig& config, const Sequence& sequence, std::size_t head)
    : sequence_(sequence),
      kind_(config.kind),
      keys_(sequence.keys()),
      causal_(sequence.causal.value_or(config.causal) && !sequence.mask),
      mask_head_(sequence.mask && sequence.mask->heads > 1 ? head : 0) {}

KeyRange Visibility::of_query(std::size_t i) const {
  return of_queries(i, 1);
}

KeyRange Visibility::of_queries(std::size_t first, std::size_t count) const {
  const std::size_t last = first + count - 1;
  const KeyRange range =
      kind_.rule == Rule::strided ? KeyRange{0, keys_} : range_of(kind_, first, last, keys_);
  return clipped(range, causal_ ? std::min(keys_, last + 1) : keys_);
}

std::array<KeySteps, 3> Visibility::strides_of(std::size_t i) const {
  const std::size_t step = kind_.size;
  const std::size_t end = causal_ ? std::min(keys_, i + 1) : keys_;
  const KeyRange near = clipped(range_of(kind_, i, i, keys_), end);
  const auto steps_to = [&](std::size_t from, std::size_t to) {
    return KeySteps{from, step, to > from ? (to - from + step - 1) / step : 0};
  };
  return {KeySteps{near.first, 1, near.size()}, steps_to(i % step, near.first), steps_to(i + step, end)};
}

bool Visibility::sees(std::size_t i, std::size_t key) const {
  if (!shows(key)) return false;
  if (!sequence_.mask) return true;
  const ScoreMask& mask = *sequence_.mask;
  return mask.added[(mask_head_ * mask.queries + i) * mask.keys + key] != hidden;
}

void Visibility::mask(std::size_t i, KeySteps keys, std::span<float> scores) const {
  if (sequence_.mask) {
    const ScoreMask& mask = *sequence_.mask;
    const float* const added = mask.added.data() + (mask_head_ * mask.queries + i) * mask.keys + keys.first;
    for (std::size_t t = 0; t < keys.count; ++t) {
      const float value = added[t * keys.step];
      scores[t] = value == hidden ? hidden : scores[t] + value;
    }
  }
  if (!sequence_.key_visible.empty()) {
    const std::uint8_t* const visible = sequence_.key_visible.data() + keys.first;
    for (std::size_t t = 0; t < keys.count; ++t) {
      if (visible[t * keys.step] == 0) scores[t] = hidden;
    }
  }
}

}  // namespace attnctl::forward

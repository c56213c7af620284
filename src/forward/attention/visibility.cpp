#include "forward/attention/visibility.hpp"

#include <limits>

#include "base/error.hpp"

namespace attnctl::forward {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

using Rule = model::AttentionKind::Rule;

/// Returns the keys that the kind allows for the queries first to last; for strided attention, only the keys
/// near the queries. The range may end after the last key.
KeyRange range_of(const model::AttentionKind& kind, std::size_t first, std::size_t last, std::size_t keys) {
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

}  // namespace

Visibility::Visibility(const model::AttentionConfig& config, const input::Sequence& sequence,
                       std::size_t head)
    : sequence_(sequence),
      kind_(config.kind),
      keys_(sequence.keys()),
      causal_(sequence.causal.value_or(config.causal) && !sequence.mask),
      mask_head_(sequence.mask && sequence.mask->heads > 1 ? head : 0) {}

KeyRange Visibility::of_queries(std::size_t first, std::size_t count) const {
  const std::size_t last = first + count - 1;
  const KeyRange range =
      kind_.rule == Rule::strided ? KeyRange{0, keys_} : range_of(kind_, first, last, keys_);
  return range.before(causal_ ? std::min(keys_, last + 1) : keys_);
}

std::array<KeySteps, 3> Visibility::strides_of(std::size_t i) const {
  const std::size_t step = kind_.size;
  const std::size_t end = causal_ ? std::min(keys_, i + 1) : keys_;
  const KeyRange near = range_of(kind_, i, i, keys_).before(end);
  const auto steps_to = [&](std::size_t from, std::size_t to) {
    return KeySteps{from, step, to > from ? (to - from + step - 1) / step : 0};
  };
  return {KeySteps{near.first, 1, near.size()}, steps_to(i % step, near.first), steps_to(i + step, end)};
}

bool Visibility::sees(std::size_t i, std::size_t key) const {
  if (!shows(key)) return false;
  if (!sequence_.mask) return true;
  const input::ScoreMask& mask = *sequence_.mask;
  return mask.added[(mask_head_ * mask.queries + i) * mask.keys + key] != kHidden;
}

void Visibility::mask(std::size_t i, KeySteps keys, std::span<float> scores) const {
  if (sequence_.mask) {
    const input::ScoreMask& mask = *sequence_.mask;
    const float* const added = mask.added.data() + (mask_head_ * mask.queries + i) * mask.keys + keys.first;
    for (std::size_t t = 0; t < keys.count; ++t) {
      const float value = added[t * keys.step];
      scores[t] = value == kHidden ? kHidden : scores[t] + value;
    }
  }
  if (!sequence_.key_visible.empty()) {
    const std::uint8_t* const visible = sequence_.key_visible.data() + keys.first;
    for (std::size_t t = 0; t < keys.count; ++t) {
      if (visible[t * keys.step] == 0) scores[t] = kHidden;
    }
  }
}

VisibleKeys::VisibleKeys(const model::AttentionConfig& config, const input::Sequence& sequence)
    : visible_(sequence.key_visible) {
  if (sequence.mask || sequence.key_embeddings.rows() > 0)
    fail(Status::bad_input,
         "input {}: studies compare with uniform attention, which is not defined for an input with a score "
         "mask or separate keys; remove the mask and the keys from the input",
         escaped(sequence.id));
  if (!visible_.empty()) {
    before_.push_back(0);
    for (const std::uint8_t visible : visible_) before_.push_back(before_.back() + visible);
  }
  const forward::Visibility visibility(config, sequence, 0);
  const bool strided = config.kind.rule == model::AttentionKind::Rule::strided;
  contiguous_ = !strided && visible_.empty();
  for (std::size_t i = 0; i < sequence.queries(); ++i) {
    VisibleRow& row = rows_.emplace_back();
    row.range = visibility.of_query(i);
    if (strided) {
      const auto [near, before, after] = visibility.strides_of(i);
      row.range = {near.first, near.first + near.count};
      row.far = {before, after};
    }
    row.count = count(i, 0, sequence.keys());
  }
}

bool VisibleKeys::finds(const VisibleRow& row, std::size_t key) const {
  if (!visible_.empty() && visible_[key] == 0) return false;
  if (key >= row.range.first && key < row.range.last) return true;
  return std::ranges::any_of(row.far, [&](const KeySteps& steps) {
    return key >= steps.first && (key - steps.first) % steps.step == 0 &&
           (key - steps.first) / steps.step < steps.count;
  });
}

std::size_t VisibleKeys::count_among(const VisibleRow& row, std::size_t first, std::size_t last) const {
  const auto count_range = [&](std::size_t from, std::size_t to) {
    from = std::max(first, from);
    to = std::min(last, to);
    if (from >= to) return std::size_t{0};
    return before_.empty() ? to - from : before_[to] - before_[from];
  };
  std::size_t found = count_range(row.range.first, row.range.last);
  for (const KeySteps& steps : row.far) {
    for (std::size_t i = 0; i < steps.count; ++i) {
      const std::size_t key = steps.first + i * steps.step;
      if (key >= first && key < last && (visible_.empty() || visible_[key] != 0)) ++found;
    }
  }
  return found;
}

}  // namespace attnctl::forward

#include "attnctl/forward/visible_keys.hpp"

#include "attnctl/base/error.hpp"

#include <algorithm>

#include "forward/visibility.hpp"

namespace attnctl {

VisibleKeys::VisibleKeys(const AttentionConfig& config, const Sequence& sequence)
    : visible_(sequence.key_visible) {
  if (sequence.mask || sequence.key_embeddings.rows() > 0)
    fail(Status::bad_input, "input {}: unsupported here: a mask over scores, or keys of their own",
         escaped(sequence.id));
  if (!visible_.empty()) {
    shown_.push_back(0);
    for (const std::uint8_t visible : visible_) shown_.push_back(shown_.back() + visible);
  }
  const forward::Visibility visibility(config, sequence, 0);
  const std::size_t n = sequence.keys();
  for (std::size_t i = 0; i < sequence.queries(); ++i) {
    Row& row = rows_.emplace_back();
    if (config.kind.rule == AttentionKind::Rule::strided) {
      const auto strides = visibility.strides_of(i);
      for (std::size_t s = 0; s < strides.size(); ++s)
        row.steps[s] = {strides[s].first, strides[s].step, strides[s].count};
    } else {
      const KeyRange range = visibility.of_query(i);
      row.steps[0] = {range.first, 1, range.size()};
    }
    for (const Steps& steps : row.steps) row.count += count(steps, 0, n);
  }
}

bool VisibleKeys::shows(std::size_t query, std::size_t key) const {
  if (!visible_.empty() && visible_[key] == 0) return false;
  return std::ranges::any_of(rows_[query].steps, [&](const Steps& steps) {
    return key >= steps.first && (key - steps.first) % steps.step == 0 &&
           (key - steps.first) / steps.step < steps.count;
  });
}

std::size_t VisibleKeys::count(const Steps& steps, std::size_t first, std::size_t last) const {
  if (steps.step == 1) {
    const std::size_t from = std::max(first, steps.first);
    const std::size_t to = std::min(last, steps.first + steps.count);
    if (from >= to) return 0;
    return shown_.empty() ? to - from : shown_[to] - shown_[from];
  }
  std::size_t found = 0;
  for (std::size_t i = 0; i < steps.count; ++i) {
    const std::size_t key = steps.first + i * steps.step;
    if (key >= first && key < last && (visible_.empty() || visible_[key] != 0)) ++found;
  }
  return found;
}

std::size_t VisibleKeys::count(std::size_t query, std::size_t first, std::size_t last) const {
  std::size_t found = 0;
  for (const Steps& steps : rows_[query].steps) found += count(steps, first, last);
  return found;
}

}  // namespace attnctl

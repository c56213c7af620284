#include "forward/attention/visible_keys.hpp"

#include "base/error.hpp"
#include "forward/attention/visibility.hpp"

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
  const bool strided = config.kind.rule == AttentionKind::Rule::strided;
  runs_ = !strided && visible_.empty();
  const std::size_t n = sequence.keys();
  for (std::size_t i = 0; i < sequence.queries(); ++i) {
    Row& row = rows_.emplace_back();
    if (strided) {
      for (const forward::KeySteps& part : visibility.strides_of(i))
        row.strides.push_back({part.first, part.step, part.count});
    } else {
      row.run = visibility.of_query(i);
    }
    row.count = count(i, 0, n);
  }
}

bool VisibleKeys::finds(const Row& row, std::size_t key) const {
  if (!visible_.empty() && visible_[key] == 0) return false;
  if (key >= row.run.first && key < row.run.last) return true;
  return std::ranges::any_of(row.strides, [&](const Steps& steps) {
    return key >= steps.first && (key - steps.first) % steps.step == 0 &&
           (key - steps.first) / steps.step < steps.count;
  });
}

std::size_t VisibleKeys::count_among(const Row& row, std::size_t first, std::size_t last) const {
  const auto shown = [&](std::size_t from, std::size_t to) {
    if (from >= to) return std::size_t{0};
    return shown_.empty() ? to - from : shown_[to] - shown_[from];
  };
  std::size_t found = shown(std::max(first, row.run.first), std::min(last, row.run.last));
  for (const Steps& steps : row.strides) {
    if (steps.step == 1) {
      found += shown(std::max(first, steps.first), std::min(last, steps.first + steps.count));
      continue;
    }
    for (std::size_t i = 0; i < steps.count; ++i) {
      const std::size_t key = steps.first + i * steps.step;
      if (key >= first && key < last && (visible_.empty() || visible_[key] != 0)) ++found;
    }
  }
  return found;
}

}  // namespace attnctl

#include "forward/visibility.hpp"

#include <algorithm>
#include <limits>

namespace attnctl::forward {
namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

}  // namespace

Visibility::Visibility(const AttentionConfig& config, const Sequence& sequence, std::size_t head)
    : sequence_(sequence),
      keys_(sequence.keys()),
      window_(config.window.value_or(std::numeric_limits<std::size_t>::max())),
      causal_(config.causal && !sequence.mask && !sequence.unmasked),
      mask_head_(sequence.mask && sequence.mask->heads > 1 ? head : 0) {}

KeyRange Visibility::of_query(std::size_t i) const {
  return of_queries(i, 1);
}

KeyRange Visibility::of_queries(std::size_t first, std::size_t count) const {
  if (!causal_) return {0, keys_};
  const std::size_t last = std::min(keys_, first + count);
  const std::size_t begin = first >= window_ ? first + 1 - window_ : 0;
  return {std::min(begin, last), last};
}

void Visibility::mask(std::size_t i, KeyRange range, std::span<float> scores) const {
  if (sequence_.mask) {
    const ScoreMask& mask = *sequence_.mask;
    const float* const added = mask.added.data() + (mask_head_ * mask.queries + i) * mask.keys + range.first;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      scores[j] = added[j] == hidden ? hidden : scores[j] + added[j];
    }
  }
  if (!sequence_.key_visible.empty()) {
    const std::uint8_t* const visible = sequence_.key_visible.data() + range.first;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (visible[j] == 0) scores[j] = hidden;
    }
  }
}

}  // namespace attnctl::forward

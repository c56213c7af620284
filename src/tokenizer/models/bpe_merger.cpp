#include "tokenizer/models/bpe_merger.hpp"

#include <algorithm>
#include <limits>

namespace attnctl {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void BpeMerger::merge_short(const MergeTable& merges) {
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    symbols[i].next = merges.find(symbols[i].id, symbols[i + 1].id);
  }
  if (!symbols.empty()) symbols.back().next = {};
  while (symbols.size() > 1) {
    const auto best =
        std::min_element(symbols.begin(), symbols.end(),
                         [](const BpeSymbol& a, const BpeSymbol& b) { return a.next.rank < b.next.rank; });
    if (!best->next.exists()) break;
    const auto right = best + 1;
    best->id = best->next.id;
    best->size += right->size;
    symbols.erase(right);
    if (best != symbols.begin()) (best - 1)->next = merges.find((best - 1)->id, best->id);
    best->next = best + 1 == symbols.end() ? MergeTable::Merge{} : merges.find(best->id, (best + 1)->id);
  }
}

void BpeMerger::push(const MergeTable& merges, std::uint32_t left, std::uint32_t right) {
  const MergeTable::Merge merge = merges.find(symbols[left].id, symbols[right].id);
  if (!merge.exists()) return;
  waiting_.push_back({merge.rank, left, merge.id});
  std::push_heap(waiting_.begin(), waiting_.end());
}

void BpeMerger::merge_long(const MergeTable& merges) {
  const auto count = static_cast<std::uint32_t>(symbols.size());
  waiting_.clear();
  links_.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    links_[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
    if (i + 1 < count) push(merges, i, i + 1);
  }
  while (!waiting_.empty()) {
    std::pop_heap(waiting_.begin(), waiting_.end());
    const Candidate best = waiting_.back();
    waiting_.pop_back();
    BpeSymbol& left = symbols[best.place];
    const std::uint32_t right = links_[best.place].next;
    // What was merged meanwhile is no longer what the candidate meant.
    if (left.size == 0 || right == kNone) continue;
    if (merges.find(left.id, symbols[right].id).id != best.id) continue;
    left.id = best.id;
    left.size += symbols[right].size;
    symbols[right].size = 0;
    const std::uint32_t next = links_[right].next;
    links_[best.place].next = next;
    if (next != kNone) links_[next].previous = best.place;
    if (links_[best.place].previous != kNone) push(merges, links_[best.place].previous, best.place);
    if (next != kNone) push(merges, best.place, next);
  }
  std::erase_if(symbols, [](const BpeSymbol& symbol) { return symbol.size == 0; });
}

}  // namespace attnctl

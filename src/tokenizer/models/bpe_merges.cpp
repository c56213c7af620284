#include "tokenizer/models/bpe_merges.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"

namespace attnctl {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

[[noreturn]] void refuse(const TokenizerFile& file, std::size_t index, std::string_view what) {
  PartConfig(file.name, fmt::format("/model/merges/{}", index), file.parts).refuse("", what);
}

}  // namespace

MergeTable::MergeTable(std::size_t merges)
    : slots_(std::bit_ceil(std::max<std::size_t>(merges + merges / 2, 2))),
      shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::put(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  slots_[slot_of(key)] = {key, merge};
}

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
    // Skips a candidate whose symbols have merged with others since.
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

MergeTable read_merges(const TokenizerFile& file, const TokenTable& vocabulary, std::size_t prefix) {
  MergeTable table(file.merges.size());
  const auto id_of = [&](std::size_t index, std::string_view token) {
    if (token.size() > vocabulary.longest()) {
      refuse(file, index,
             fmt::format("got {} of {} bytes, need a token of the vocabulary, whose longest has {}",
                         in_quotes(token), token.size(), vocabulary.longest()));
    }
    const std::int32_t id = vocabulary.find(token);
    if (id < 0) {
      refuse(file, index, fmt::format("got {}, need a token of the vocabulary", in_quotes(token)));
    }
    return id;
  };
  std::string whole;
  for (std::size_t i = 0; i < file.merges.size(); ++i) {
    const auto [left, right] = file.merges[i];
    const std::int32_t left_id = id_of(i, left);
    const std::int32_t right_id = id_of(i, right);
    if (right.size() < prefix) {
      refuse(file, i, fmt::format("got {}, need a token with continuing_subword_prefix", in_quotes(right)));
    }
    whole.assign(left).append(right, prefix, std::string::npos);
    table.put(left_id, right_id, {static_cast<std::uint32_t>(i), id_of(i, whole)});
  }
  return table;
}

void check_no_dropout(const PartConfig& model) {
  if (!model.has("dropout")) return;
  const PartConfig dropout = model.at("dropout");
  if (!dropout.node().is_number() || dropout.node().get<double>() != 0) {
    model.refuse("dropout", fmt::format("unsupported {}, supported: null, 0", dropout.node().dump()));
  }
}

}  // namespace attnctl

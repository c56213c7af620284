#include "tokenizer/models/merge_table.hpp"

#include <algorithm>
#include <bit>

namespace attnctl {

MergeTable::MergeTable(std::size_t merges)
    : slots_(std::bit_ceil(std::max<std::size_t>(merges + merges / 2, 2))),
      shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::put(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  slots_[slot_of(key)] = {key, merge};
}

}  // namespace attnctl

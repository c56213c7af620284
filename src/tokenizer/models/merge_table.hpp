#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace attnctl {

/// Finds what two neighbouring tokens merge into: a hash table with open addressing. Shared by workers.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = std::numeric_limits<std::uint32_t>::max();  // the lowest comes first; this: none
    std::int32_t id = -1;

    [[nodiscard]] bool exists() const { return id >= 0; }
  };

  explicit MergeTable(std::size_t merges);
  /// A later merge of the same two replaces the earlier.
  void put(std::int32_t left, std::int32_t right, Merge merge);
  [[nodiscard]] Merge find(std::int32_t left, std::int32_t right) const {
    return slots_[slot_of(key_of(left, right))].merge;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Merge merge;
  };

  [[nodiscard]] static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const {
    std::size_t i = (key * 0x9E3779B97F4A7C15) >> shift_;
    while (slots_[i].merge.exists() && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
    return i;
  }

  std::vector<Slot> slots_;  // a power of two, at most two thirds of them taken
  int shift_;
};

}  // namespace attnctl

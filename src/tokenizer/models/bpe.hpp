#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace attnctl {

/// A map from pairs of neighbouring tokens to the token they merge into: a hash table with open addressing.
/// Safe to share between threads.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = std::numeric_limits<std::uint32_t>::max();  // the lowest merges first
    std::int32_t id = -1;

    [[nodiscard]] bool exists() const { return id >= 0; }
  };

  explicit MergeTable(std::size_t merges);
  /// Adds a merge, or replaces the merge of the same pair.
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

  std::vector<Slot> slots_;  // [a power of two], at most two thirds of them used
  int shift_;
};

/// A token of a word that is being merged.
struct BpeSymbol {
  std::int32_t id = 0;
  std::uint32_t size = 0;  // bytes
  MergeTable::Merge next;  // merge with the symbol to the right
};

/// Merges the neighbours with the lowest rank, the leftmost first, until no pair merges. Keeps its buffers.
class BpeMerger {
 public:
  std::vector<BpeSymbol> symbols;  // before merge(): characters; after it: tokens

  void merge(const MergeTable& merges) {
    symbols.size() <= kShort ? merge_short(merges) : merge_long(merges);
  }

 private:
  /// Up to this number of symbols, searching all of them is faster than a queue.
  static constexpr std::size_t kShort = 48;

  struct Link {
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t place;
    std::int32_t id;
    /// Returns whether this one merges after the other.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };

  void merge_short(const MergeTable& merges);
  void merge_long(const MergeTable& merges);
  void push(const MergeTable& merges, std::uint32_t left, std::uint32_t right);

  std::vector<Link> links_;         // [symbols]
  std::vector<Candidate> waiting_;  // a heap
};

}  // namespace attnctl

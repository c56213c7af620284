#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tokenizer/models/merge_table.hpp"

namespace attnctl {

/// A token while a word is merged.
struct BpeSymbol {
  std::int32_t id = 0;
  std::uint32_t size = 0;  // bytes of the word
  MergeTable::Merge next;  // with the symbol to the right
};

/// Merges neighbours, the lowest rank first and then the leftmost, until none merge. Buffers are kept.
class BpeMerger {
 public:
  std::vector<BpeSymbol> symbols;  // in: characters; out: tokens

  void merge(const MergeTable& merges) {
    symbols.size() <= kShort ? merge_short(merges) : merge_long(merges);
  }

 private:
  /// Up to here looking at all symbols again is faster than a queue.
  static constexpr std::size_t kShort = 48;

  struct Link {
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t place;
    std::int32_t id;
    /// Is it to be merged later than the other?
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

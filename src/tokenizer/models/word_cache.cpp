#include "tokenizer/models/word_cache.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace attnctl {
namespace {

constexpr std::size_t kSlots = std::size_t{1} << 15;
constexpr std::size_t kMostWords = kSlots / 2;

}  // namespace

WordCache::WordCache() : slots_(kSlots) {
  words_.reserve(kMostWords * 8);
  tokens_.reserve(kMostWords * 2);
}

std::size_t WordCache::slot_of(std::string_view word, std::uint64_t hash) const {
  for (std::size_t i = hash % kSlots;; i = (i + 1) % kSlots) {
    const Slot& slot = slots_[i];
    if (slot.length == 0) return i;
    if (slot.hash == static_cast<std::uint32_t>(hash >> 32) && slot.length == word.size() &&
        std::memcmp(words_.data() + slot.word, word.data(), word.size()) == 0) {
      return i;
    }
  }
}

WordCache::Found WordCache::find(std::string_view word, std::uint64_t hash) const {
  const Slot& slot = slots_[slot_of(word, hash)];
  if (slot.length == 0) return {};
  return {true, std::span(tokens_).subspan(slot.tokens, slot.count)};
}

void WordCache::put(std::string_view word, std::uint64_t hash, std::span<const PieceToken> tokens) {
  if (word.empty() || word.size() > kLongest || tokens.size() > std::numeric_limits<std::uint16_t>::max()) {
    return;
  }
  if (taken_ == kMostWords) clear();
  Slot& slot = slots_[slot_of(word, hash)];
  slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(words_.size()),
          static_cast<std::uint32_t>(tokens_.size()), static_cast<std::uint16_t>(tokens.size()),
          static_cast<std::uint16_t>(word.size())};
  words_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++taken_;
}

void WordCache::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  taken_ = 0;
  words_.clear();
  tokens_.clear();
}

}  // namespace attnctl

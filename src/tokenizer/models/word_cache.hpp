#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/models/token_model.hpp"

namespace attnctl {

/// Tokens of words that a worker has met. Its memory is bounded: when it is full it begins anew. A look-up
/// allocates nothing.
class WordCache {
 public:
  /// Longer words are not kept.
  static constexpr std::size_t kLongest = 128;  // bytes

  WordCache();

  struct Found {
    bool known = false;
    std::span<const PieceToken> tokens;
  };
  /// The tokens of a word of at most kLongest bytes, whose hash_of() is `hash`; good until the next put().
  [[nodiscard]] Found find(std::string_view word, std::uint64_t hash) const;
  void put(std::string_view word, std::uint64_t hash, std::span<const PieceToken> tokens);

 private:
  struct Slot {
    std::uint32_t hash = 0;    // its upper half
    std::uint32_t word = 0;    // in words_
    std::uint32_t tokens = 0;  // in tokens_
    std::uint16_t count = 0;   // of tokens
    std::uint16_t length = 0;  // of the word; 0: free
  };

  [[nodiscard]] std::size_t slot_of(std::string_view word, std::uint64_t hash) const;
  void clear();

  std::vector<Slot> slots_;
  std::size_t taken_ = 0;
  std::string words_;
  std::vector<PieceToken> tokens_;
};

}  // namespace attnctl

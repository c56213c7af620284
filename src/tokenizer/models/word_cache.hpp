#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/models/token_model.hpp"

namespace attnctl {

/// A cache of the tokens of words, for one thread. Starts again when it is full. A look-up does not allocate.
class WordCache {
 public:
  /// The longest word that is cached.
  static constexpr std::size_t kLongest = 128;  // bytes

  WordCache();

  struct Found {
    bool known = false;
    std::span<const PieceToken> tokens;
  };
  /// Returns the tokens of a word of at most kLongest bytes whose hash_of() is `hash`; valid until the next
  /// put().
  [[nodiscard]] Found find(std::string_view word, std::uint64_t hash) const;
  void put(std::string_view word, std::uint64_t hash, std::span<const PieceToken> tokens);

  /// Appends the tokens of a word from the cache, or from `make(word, tokens)`, which appends them to an
  /// empty list.
  template <typename Make>
  void append(std::string_view word, std::vector<PieceToken>& tokens, const Make& make) {
    const bool may_be_cached = word.size() <= kLongest;
    const std::uint64_t hash = may_be_cached ? hash_of(word) : 0;
    if (may_be_cached) {
      if (const Found found = find(word, hash); found.known) {
        tokens.insert(tokens.end(), found.tokens.begin(), found.tokens.end());
        return;
      }
    }
    made_.clear();
    make(word, made_);
    put(word, hash, made_);
    tokens.insert(tokens.end(), made_.begin(), made_.end());
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;    // upper half
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
  std::vector<PieceToken> made_;  // buffer of append()
};

}  // namespace attnctl

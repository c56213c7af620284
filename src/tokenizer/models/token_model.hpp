#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/token_table.hpp"

namespace attnctl {

/// A token at bytes [begin, end) of a piece.
struct PieceToken {
  std::int32_t id = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Cuts pieces into tokens. Safe to share between threads.
class TokenModel {
 public:
  /// Buffers and cache of one thread.
  struct State {
    virtual ~State() = default;
  };

  virtual ~TokenModel() = default;

  [[nodiscard]] virtual std::unique_ptr<State> make_state() const = 0;
  /// Appends the tokens of `piece` (UTF-8, not empty) to `tokens`. `state` is from make_state() of this
  /// model.
  virtual void tokenize(std::string_view piece, State& state, std::vector<PieceToken>& tokens) const = 0;
  /// Returns the id of the token whose string is its text instead of the vocabulary's; -1 if there is none.
  [[nodiscard]] virtual std::int32_t verbatim() const { return -1; }
};
using TokenModelPtr = std::unique_ptr<const TokenModel>;

/// Returns the model that a tokenizer's file describes. May move its vocabulary and merges. Throws
/// Error(bad_input).
[[nodiscard]] TokenModelPtr make_token_model(TokenizerFile& file);

/// The token for text that is not in the vocabulary. A file may name a token that it does not have, which is
/// an error only if the token is needed.
class UnknownToken {
 public:
  UnknownToken(const TokenizerFile& file, std::string token, const TokenTable& table)
      : file_(file.name), token_(std::move(token)), id_(table.find(token_)) {}
  [[nodiscard]] const std::string& token() const { return token_; }
  [[nodiscard]] bool exists() const { return id_ >= 0; }
  /// Throws Error(bad_input) if the vocabulary does not have it.
  [[nodiscard]] std::int32_t id() const {
    if (id_ < 0) refuse();
    return id_;
  }

 private:
  [[noreturn]] void refuse() const;

  std::string file_;
  std::string token_;
  std::int32_t id_;
};

[[nodiscard]] TokenModelPtr make_bpe(const PartConfig& model, TokenizerFile& file);

/// Returns the ids of the tokens <0x00> to <0xFF>; -1 for those that are missing.
[[nodiscard]] std::array<std::int32_t, 256> byte_tokens(const TokenTable& vocabulary);

/// A cache of the tokens of words, for one thread. Starts again when it is full. A look-up does not allocate.
class WordCache {
 public:
  /// The longest word that is cached.
  static constexpr std::size_t kLongest = 128;  // bytes

  WordCache();

  /// Appends the tokens of a word from the cache, or calls `make()`, which appends them.
  template <typename Make>
  void append(std::string_view word, std::vector<PieceToken>& tokens, const Make& make) {
    if (word.size() > kLongest) return make();
    const std::uint64_t hash = hash_of(word);
    const Slot& slot = slots_[slot_of(word, hash)];
    if (slot.length > 0) {
      const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(slot.tokens);
      tokens.insert(tokens.end(), begin, begin + slot.count);
      return;
    }
    const std::size_t first = tokens.size();
    make();
    put(word, hash, std::span(tokens).subspan(first));
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;    // upper half
    std::uint32_t word = 0;    // in words_
    std::uint32_t tokens = 0;  // in tokens_
    std::uint16_t count = 0;   // of tokens
    std::uint16_t length = 0;  // of the word; 0: free
  };

  /// Returns the slot of a word, or the free slot for it.
  [[nodiscard]] std::size_t slot_of(std::string_view word, std::uint64_t hash) const;
  void put(std::string_view word, std::uint64_t hash, std::span<const PieceToken> tokens);

  std::vector<Slot> slots_;
  std::size_t taken_ = 0;
  std::string words_;
  std::vector<PieceToken> tokens_;
};

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

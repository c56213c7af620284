#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::tokenizer {

/// A token and its range in a piece of text: bytes [begin, end).
struct PieceToken {
  std::int32_t id = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// The token for text that the vocabulary does not contain. The vocabulary may lack this token; this is an
/// error only when the token is needed.
struct UnknownToken {
  UnknownToken(const TokenizerFile& of, std::string text, const TokenTable& table)
      : file(of.name), token(std::move(text)), known(table.find(token)) {}
  /// Returns the token's id. Throws Error(bad_input) if the vocabulary does not contain the token.
  [[nodiscard]] std::int32_t id() const;

  std::string file;
  std::string token;
  std::int32_t known;  // the token's id; -1 if the vocabulary does not contain the token
};

/// The ids of the tokens <0x00> to <0xFF>; -1 for each token that the vocabulary does not contain.
struct ByteTokens {
  explicit ByteTokens(const TokenTable& vocabulary);
  [[nodiscard]] std::int32_t of(char byte) const { return ids[static_cast<unsigned char>(byte)]; }
  [[nodiscard]] bool has_all(std::string_view text) const {
    return std::ranges::all_of(text, [&](char byte) { return of(byte) >= 0; });
  }

  std::array<std::int32_t, 256> ids{};
};

/// The best tokenization of the bytes before a position, for Unigram models.
struct BestTokenization {
  double score = 0;
  std::uint32_t begin = 0;  // byte at which the last token begins
  std::int32_t id = -1;     // id of the last token; -1: no tokenization was found yet
};

/// A cache from words to their tokens, for one thread. A full cache is emptied, and grows up to kMostWords.
class WordCache {
 public:
  static constexpr std::size_t kLongest = 128;  // in bytes; longer words are not cached

  /// Appends the tokens of a word to `tokens`. If the cache does not have the word, calls make(), which must
  /// append the word's tokens to `tokens`, and stores them unless the word is longer than kLongest.
  template <typename Make>
  void append(std::string_view word, std::vector<PieceToken>& tokens, const Make& make) {
    if (word.size() > kLongest) return make();
    if (const std::int32_t known = words_.find(word); known >= 0) {
      const auto size = tokens_.begin() + known;
      tokens.insert(tokens.end(), size + 1, size + 1 + size->id);
      return;
    }
    const auto first = static_cast<std::ptrdiff_t>(tokens.size());
    make();
    if (words_.size() == most_words_) {
      most_words_ = std::min(most_words_ * 4, kMostWords);
      words_ = TokenTable(most_words_);
      tokens_.clear();
    }
    words_.put(word, static_cast<std::int32_t>(tokens_.size()));
    tokens_.push_back({static_cast<std::int32_t>(tokens.end() - tokens.begin() - first), 0, 0});
    tokens_.insert(tokens_.end(), tokens.begin() + first, tokens.end());
  }

 private:
  static constexpr std::size_t kMostWords = std::size_t{1} << 14;

  std::size_t most_words_ = kMostWords / 16;  // a short text should not wait for a large table
  TokenTable words_{most_words_};             // for each word, the index of its first element in tokens_
  /// For each word, an element whose id is the number of tokens of the word, then these tokens.
  std::vector<PieceToken> tokens_;
};

/// A map from pairs of adjacent tokens to the token that the pair merges into: a hash table with open
/// addressing. Several threads may read one table at once.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = std::numeric_limits<std::uint32_t>::max();  // the lowest rank merges first
    std::int32_t id = -1;                                            // the merged token; -1: no merge
    [[nodiscard]] bool exists() const { return id >= 0; }
  };

  explicit MergeTable(std::size_t merges)
      : slots_(std::bit_ceil(std::max<std::size_t>(merges + merges / 2, 2))),
        shift_(64 - std::countr_zero(slots_.size())) {}
  void put(std::int32_t left, std::int32_t right, Merge merge) {
    const std::uint64_t key = key_of(left, right);
    slots_[slot_of(key)] = {key, merge};
  }
  /// Returns the merge of a pair of tokens. If there is none, exists() of the result is false.
  [[nodiscard]] Merge find(std::int32_t left, std::int32_t right) const {
    return slots_[slot_of(key_of(left, right))].second;
  }

 private:
  [[nodiscard]] static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const {
    std::size_t i = (key * 0x9E3779B97F4A7C15) >> shift_;
    while (slots_[i].second.exists() && slots_[i].first != key) i = (i + 1) & (slots_.size() - 1);
    return i;
  }

  /// The merges and their keys. The size is a power of two; at most three quarters are used.
  std::vector<std::pair<std::uint64_t, Merge>> slots_;
  int shift_;
};

/// A token of a word during merging.
struct BpeSymbol {
  std::int32_t id = 0;
  std::uint32_t size = 0;  // bytes
  MergeTable::Merge next;  // merge with the next symbol to the right; set only by merge_short()
};

/// Merges adjacent symbols until no pair has a merge. Each step merges the pair with the lowest rank; among
/// equal ranks, the leftmost pair. Keeps its buffers for the next word.
class BpeMerger {
 public:
  /// Before merge(), the tokens of the single characters of a word; after merge(), the tokens of the word.
  std::vector<BpeSymbol> symbols;

  void merge(const MergeTable& merges) {
    symbols.size() <= kShort ? merge_short(merges) : merge_long(merges);
  }

 private:
  /// Up to this number of symbols, searching all symbols for the best merge is faster than a queue.
  static constexpr std::size_t kShort = 48;

  struct Link {
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct MergeCandidate {
    std::uint32_t rank;
    std::uint32_t place;
    std::int32_t id;
    /// Returns whether this candidate merges after `other`.
    bool operator<(const MergeCandidate& other) const {
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };

  void merge_short(const MergeTable& merges);
  void merge_long(const MergeTable& merges);
  void push(const MergeTable& merges, std::uint32_t left, std::uint32_t right);

  // Buffers of merge_long().
  std::vector<Link> links_;              // [symbols], neighbours of each remaining symbol
  std::vector<MergeCandidate> waiting_;  // candidates that were not tried yet, as a heap
};

/// Splits pieces of text into tokens. Several threads may use one model, each with its own ModelState.
class TokenModel {
 public:
  /// The buffers and the cache of one thread, which must be used with one model only.
  struct ModelState {
    WordCache cache;
    BpeMerger merger;
    std::string character;                   // BPE: a character with its prefix and suffix
    std::vector<BestTokenization> best;      // Unigram: [bytes of the piece + 1], by end position
    std::vector<PieceToken> unigram_tokens;  // Unigram: the tokens of the best tokenization
  };

  virtual ~TokenModel() = default;

  /// Appends the tokens of `piece` to `tokens`. `piece` must be UTF-8 and not empty. Throws Error(bad_input)
  /// if the piece needs an unknown token that the model does not have.
  virtual void tokenize(std::string_view piece, ModelState& state, std::vector<PieceToken>& tokens) const = 0;
  /// Returns the id of the token whose string is the text that it covers, instead of a string of the
  /// vocabulary: the unknown token of a Unigram model. Returns -1 if the model has no such token.
  [[nodiscard]] virtual std::int32_t verbatim() const { return -1; }
};
using TokenModelPtr = std::unique_ptr<const TokenModel>;

/// Makes the model that a tokenizer file describes. Moves file.table into the model. Throws Error(bad_input)
/// if the model is invalid or not supported.
[[nodiscard]] TokenModelPtr make_token_model(TokenizerFile& file);
[[nodiscard]] TokenModelPtr make_bpe(const PartConfig& model, TokenizerFile& file);

}  // namespace attnctl::tokenizer

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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

[[nodiscard]] TokenModelPtr make_bpe(TokenizerFile& file, const PartConfig& model);
[[nodiscard]] TokenModelPtr make_unigram(TokenizerFile& file, const PartConfig& model);

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

}  // namespace attnctl

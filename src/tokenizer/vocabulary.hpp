#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/tokenizer_section.hpp"

namespace attnctl::tokenizer {

struct TokenEntry {
  std::string token;
  std::int32_t id = 0;
  double score = 0;  // score in the file, for Unigram models the log probability; 0 if missing
};

/// An added token: an element of /added_tokens in tokenizer.json, or its equal in another file.
struct AddedToken {
  std::int32_t id = 0;  // set by check_vocabulary()
  std::string content;
  bool special = false;
  bool normalized = false;
  bool lstrip = false;
  bool rstrip = false;
  bool single_word = false;
};

/// A map from tokens to ids: a hash table with open addressing. Several threads may read one table at once.
class TokenTable {
 public:
  /// Makes an empty table for at most `tokens` different tokens. The table does not grow.
  explicit TokenTable(std::size_t tokens = 0);
  /// Of equal tokens, uses the last id. Throws Error(bad_input) if the tokens have 4 GiB or more in total.
  explicit TokenTable(const std::vector<TokenEntry>& entries);

  /// Adds a token with an id, or replaces the id of a token in the table. `id` must not be negative.
  void put(std::string_view token, std::int32_t id);
  /// Returns the id of a token; -1 if the table does not contain it.
  [[nodiscard]] std::int32_t find(std::string_view token) const;
  [[nodiscard]] std::size_t size() const { return size_; }        // number of different tokens
  [[nodiscard]] std::size_t longest() const { return longest_; }  // bytes of the longest token; 0: none

 private:
  struct StoredToken {
    std::uint32_t hash = 0;  // upper 32 bits of the hash
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
    std::int32_t id = -1;  // -1: the slot is free
  };

  /// Returns the slot that holds a token, or the free slot where it belongs.
  [[nodiscard]] std::size_t slot_of(std::string_view token, std::uint64_t hash) const;

  std::string bytes_;
  std::vector<StoredToken> slots_;  // the size is a power of two; at most half of the slots are used
  std::size_t size_ = 0;
  std::size_t longest_ = 0;
};

/// A trie of tokens as a double array: one look-up per byte. Several threads may use one trie at once.
class TokenTrie {
 public:
  /// Builds the trie from the non-empty tokens of `entries`. The ids are those in `table`.
  TokenTrie(const std::vector<TokenEntry>& entries, const TokenTable& table);

  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNowhere = 0xFFFFFFFF;

  /// Returns the child of a node for the next byte `byte`; kNowhere if there is none.
  [[nodiscard]] std::uint32_t step(std::uint32_t node, char byte) const {
    const std::uint32_t next = nodes_[node].base + static_cast<unsigned char>(byte);
    return nodes_[next].parent == node ? next : kNowhere;
  }
  /// Returns the node that is reached from the root along `bytes`; kNowhere if there is none.
  [[nodiscard]] std::uint32_t walk(std::string_view bytes) const {
    std::uint32_t node = kRoot;
    for (std::size_t i = 0; i < bytes.size() && node != kNowhere; ++i) node = step(node, bytes[i]);
    return node;
  }
  struct TokenMatch {
    std::int32_t id = -1;  // -1: no token matches
    std::size_t size = 0;  // length of the match in bytes
  };
  /// Returns the longest non-empty prefix of `text` that leads from `node`, which may be kNowhere, to the end
  /// of a token. Starting at the root, this is the longest token that `text` starts with.
  [[nodiscard]] TokenMatch longest(std::string_view text, std::uint32_t node = kRoot) const {
    TokenMatch match;
    for (std::size_t i = 0; i < text.size() && node != kNowhere; ++i) {
      node = step(node, text[i]);
      if (node != kNowhere && id(node) >= 0) match = {id(node), i + 1};
    }
    return match;
  }
  /// Returns the id of the token that ends at a node; -1 if there is none.
  [[nodiscard]] std::int32_t id(std::uint32_t node) const { return nodes_[node].id; }

 private:
  struct TrieNode {
    std::uint32_t base = 0;  // the child for byte b is at index base + b; base + 255 is a valid index
    std::uint32_t parent = kNowhere;
    std::int32_t id = -1;
  };
  struct Builder;

  std::vector<TrieNode> nodes_;
};

/// The merges of a BPE model in the order of their rank. All strings together must have less than 4 GiB.
class MergeList {
 public:
  /// Adds the left or the right token of a merge. Must be called for the left token first.
  void add_side(std::string_view token) {
    bytes_ += token;
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  void add(std::string_view left, std::string_view right) {
    add_side(left);
    add_side(right);
  }
  /// Adds a line "left right". Returns false unless it has exactly one space at byte `from` or later.
  [[nodiscard]] bool add_line(std::string_view line, std::size_t from = 0) {
    const std::size_t space = line.find(' ', from);
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) return false;
    add(line.substr(0, space), line.substr(space + 1));
    return true;
  }
  void reserve(std::size_t bytes) {  // estimated size of all tokens in bytes
    bytes_.reserve(bytes);
    ends_.reserve(bytes / 4);
  }

  [[nodiscard]] std::size_t size() const { return ends_.size() / 2; }
  [[nodiscard]] std::pair<std::string_view, std::string_view> operator[](std::size_t merge) const {
    const std::size_t begin = merge == 0 ? 0 : ends_[2 * merge - 1];
    const std::size_t middle = ends_[2 * merge];
    const std::string_view bytes = bytes_;
    return {bytes.substr(begin, middle - begin), bytes.substr(middle, ends_[2 * merge + 1] - middle)};
  }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> ends_;  // [2 * merges], ends of the left and right tokens in bytes_
};

/// Returns the byte of a byte token: 0x41 for "<0x41>". Returns nullopt for other tokens.
[[nodiscard]] std::optional<unsigned char> byte_of(std::string_view token);

/// The token strings of a model by id, and which of the tokens are special.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// `tokens` is indexed by id and has empty strings for unused ids. `special` has the ids of special tokens.
  /// `separators` and `mask` are the tokens with these roles, as far as they are known.
  Vocabulary(std::vector<std::string> tokens, std::set<std::int64_t> special,
             std::vector<std::string> separators = {}, std::string_view mask = {});

  [[nodiscard]] bool empty() const { return tokens_.empty(); }
  [[nodiscard]] std::size_t size() const { return tokens_.size(); }
  /// Returns the lowest id of a token; nullopt if the vocabulary does not contain the token.
  [[nodiscard]] std::optional<std::int64_t> id(std::string_view token) const;
  [[nodiscard]] std::optional<std::string_view> token(std::int64_t id) const;
  [[nodiscard]] bool is_special(std::int64_t id) const { return special_.contains(id); }
  void mark_special(std::int64_t id) { special_.insert(id); }
  /// Returns whether a token ends or separates texts. These are [SEP], </s>, <|endoftext|> and the tokens
  /// that the tokenizer's files name as sep_token and eos_token. All of them are special.
  [[nodiscard]] bool is_separator(std::int64_t id) const { return separators_.contains(id); }
  /// Returns whether a token hides a token that the model predicts: the mask_token of the tokenizer's files,
  /// otherwise [MASK] or <mask>.
  [[nodiscard]] bool is_mask(std::int64_t id) const { return mask_ == id; }
  [[nodiscard]] std::optional<std::int64_t> mask() const { return mask_; }
  /// Returns whether a token stands for text that the vocabulary lacks: [UNK], <unk>, and single bytes of
  /// non-ASCII characters: <0x80> to <0xFF>, or "å" and the like in a byte-level vocabulary.
  [[nodiscard]] bool is_unknown(std::int64_t id) const {
    const auto index = static_cast<std::size_t>(id);
    return index < unknown_.size() && unknown_[index];
  }
  /// Returns a token string without the word mark at its beginning. Returns other tokens, and a token that is
  /// only the mark, unchanged. The word mark of a vocabulary is "##" (which begins the tokens that continue a
  /// word), "Ġ" or "▁" (which begin the first token of a word after a space), whichever is the most frequent;
  /// there is none if fewer than 1 % of the tokens have it.
  [[nodiscard]] std::string plain(std::string_view token) const;
  /// Returns a token as text and pictures show it: unchanged or, with --strip-markers, without its word mark.
  /// A special token, such as "▁<PRE>", is never changed.
  [[nodiscard]] std::string label(std::string_view token, bool strip_markers) const;

  /// Returns the index of the word of each token, from 0; nullopt for special tokens. A word begins at the
  /// first token and after each special token. Without word mark, each token is a word. If it is "##", a word
  /// also begins at each token without "##". If it is "Ġ" or "▁", a word also begins at each token with the
  /// mark, at each empty token and the token after it, and at a token if the token begins, or the token
  /// before it ends, with an ASCII character that is not a letter or digit: "mat" and "." are two words.
  [[nodiscard]] std::vector<std::optional<std::size_t>> words(std::span<const std::string> tokens,
                                                              std::span<const std::int64_t> ids) const;

 private:
  std::vector<std::string> tokens_;
  TokenTable ids_;
  std::set<std::int64_t> special_;
  std::set<std::int64_t> separators_;
  std::optional<std::int64_t> mask_;
  std::vector<bool> unknown_;  // [tokens], result of is_unknown()
  std::string_view mark_;      // the word mark; empty: none
};

/// Where a model's tokenizer is: in the weights file (GGUF) or in a directory.
struct TokenizerOrigin {
  std::filesystem::path directory;  // directory of the tokenizer files; empty: none
  std::shared_ptr<const formats::TokenizerSection> section = {};  // tokenizer in the weights file; null: none
  std::string model = {};  // the path or name that the user gave, for errors; empty: the directory

  [[nodiscard]] bool empty() const { return directory.empty() && section == nullptr; }
};

/// Reads the vocabulary of a model from the same files as Tokenizer::open(), including added and special
/// tokens. Unsupported normalizers and other parts are not errors. Returns an empty vocabulary if no
/// tokenizer file exists. Throws Error(bad_input) if a file is invalid.
[[nodiscard]] Vocabulary read_vocabulary(const TokenizerOrigin& origin);

}  // namespace attnctl::tokenizer

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer_section.hpp"

namespace attnctl {

/// How a vocabulary marks words: not at all (each token is a word), "##" on continuations (WordPiece), or a
/// mark on the first piece of a word after a space (byte-level "Ġ", metaspace "▁").
enum class WordMark { none, continuation, byte_level, metaspace };

/// The tokens of a model by id, with its special tokens.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// `tokens` is indexed by id, with empty strings for unused ids. The word mark is the most frequent one.
  Vocabulary(std::vector<std::string> tokens, std::set<std::int64_t> special);

  [[nodiscard]] bool empty() const { return tokens_.empty(); }
  [[nodiscard]] std::size_t size() const { return tokens_.size(); }
  [[nodiscard]] std::optional<std::int64_t> id(std::string_view token) const;
  [[nodiscard]] std::optional<std::string_view> token(std::int64_t id) const;
  [[nodiscard]] bool is_special(std::int64_t id) const { return special_.contains(id); }
  void mark_special(std::int64_t id) { special_.insert(id); }
  /// Returns whether a token ends or separates texts: [SEP], </s>, <|endoftext|>, and what the tokenizer's
  /// files call sep_token or eos_token.
  [[nodiscard]] bool is_separator(std::int64_t id) const { return separators_.contains(id); }
  void mark_separator(std::int64_t id);
  [[nodiscard]] WordMark mark() const { return mark_; }

  /// Returns a token without its word mark ("it" for "Ġit" and "▁it").
  [[nodiscard]] std::string plain(std::string_view token) const;

  /// Returns the word of each token, numbered from 0; nullopt for special tokens. Words follow the word mark.
  /// If the mark represents a space, a change between letters and punctuation also starts a word ("mat" "."
  /// are two).
  [[nodiscard]] std::vector<std::optional<std::size_t>> words(std::span<const std::string> tokens,
                                                              std::span<const std::int64_t> ids) const;

 private:
  [[nodiscard]] std::size_t slot_of(std::string_view token) const;

  std::vector<std::string> tokens_;
  std::vector<std::int32_t> slots_;  // a hash table of ids with open addressing; -1: free
  std::set<std::int64_t> special_;
  std::set<std::int64_t> separators_;
  WordMark mark_ = WordMark::none;
};

/// The location of a model's tokenizer: its weights file (GGUF) or its directory.
struct TokenizerOrigin {
  std::filesystem::path directory;                  // empty: no directory
  std::shared_ptr<const TokenizerSection> section;  // null: not in the weights file

  [[nodiscard]] bool empty() const { return directory.empty() && section == nullptr; }
};

/// Reads the vocabulary of a model from the first of the files that Tokenizer::open() knows; special tokens
/// also come from special_tokens_map.json. Returns an empty one if none of them exists. Throws
/// Error(bad_input).
[[nodiscard]] Vocabulary read_vocabulary(const std::filesystem::path& directory);
[[nodiscard]] Vocabulary read_vocabulary(const TokenizerOrigin& origin);

}  // namespace attnctl

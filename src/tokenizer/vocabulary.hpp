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

/// How a vocabulary marks where words begin: nothing (each token a word), "##" on continuations (WordPiece),
/// or a mark on the first piece of a word that follows a space (byte-level "Ġ", metaspace "▁").
enum class WordMark { none, continuation, byte_level, metaspace };

/// Ids and tokens of a model, with its special tokens.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// tokens[id]; an empty string where an id is unused. The word mark is the one that most tokens carry.
  Vocabulary(std::vector<std::string> tokens, std::set<std::int64_t> special);

  [[nodiscard]] bool empty() const { return tokens_.empty(); }
  [[nodiscard]] std::size_t size() const { return tokens_.size(); }
  [[nodiscard]] std::optional<std::int64_t> id(std::string_view token) const;
  /// The token of an id; nullopt where the vocabulary has none.
  [[nodiscard]] std::optional<std::string_view> token(std::int64_t id) const;
  [[nodiscard]] bool is_special(std::int64_t id) const { return special_.contains(id); }
  [[nodiscard]] const std::set<std::int64_t>& special() const { return special_; }
  void mark_special(std::int64_t id) { special_.insert(id); }
  /// Tokens that end a sentence or stand between two: [SEP], </s>, <|endoftext|>, what the special tokens'
  /// map calls sep_token and eos_token.
  [[nodiscard]] bool is_separator(std::int64_t id) const { return separators_.contains(id); }
  void mark_separator(std::int64_t id);
  [[nodiscard]] WordMark mark() const { return mark_; }

  /// A token as a person would type it: without the word mark ("Ġit" and "▁it" are "it").
  [[nodiscard]] std::string plain(std::string_view token) const;

  /// The word that each token belongs to, numbered from 0; nullopt for special tokens. Follows the word mark;
  /// after a mark of the space before a word, punctuation and letters part as well ("mat" "." are two words).
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

/// Where a model's tokenizer is: inside its weights file, else among the files of its directory.
struct TokenizerOrigin {
  std::filesystem::path directory;                  // empty: it has none
  std::shared_ptr<const TokenizerSection> section;  // null: the weights file holds none

  [[nodiscard]] bool empty() const { return directory.empty() && section == nullptr; }
};

/// Reads the vocabulary of a model's directory: tokenizer.json, else vocab.txt, else vocab.json; special
/// tokens also from special_tokens_map.json. Empty where the directory has none of them. Throws
/// Error(bad_input).
[[nodiscard]] Vocabulary read_vocabulary(const std::filesystem::path& directory);
[[nodiscard]] Vocabulary read_vocabulary(const TokenizerOrigin& origin);

}  // namespace attnctl

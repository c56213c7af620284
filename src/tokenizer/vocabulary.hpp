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
#include "tokenizer/token_table.hpp"

namespace attnctl::tokenizer {

/// How a vocabulary marks the beginnings of words. `none`: no marks; each token is a word. `continuation`:
/// "##" begins the tokens that continue a word (WordPiece). `byte_level`: "Ġ" begins the first token of a
/// word after a space. `metaspace`: like `byte_level`, but with "▁".
enum class WordMark { none, continuation, byte_level, metaspace };

/// The token strings of a model by id, and which of the tokens are special.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// `tokens` is indexed by id and has empty strings for unused ids. `special` has the ids of special tokens;
  /// [SEP], </s> and <|endoftext|> are also special. mark() is the most frequent word mark, or WordMark::none
  /// if fewer than 1 % of the tokens have it.
  Vocabulary(std::vector<std::string> tokens, std::set<std::int64_t> special);

  [[nodiscard]] bool empty() const { return tokens_.empty(); }
  [[nodiscard]] std::size_t size() const { return tokens_.size(); }
  /// Returns the lowest id of a token; nullopt if the vocabulary does not contain the token.
  [[nodiscard]] std::optional<std::int64_t> id(std::string_view token) const;
  [[nodiscard]] std::optional<std::string_view> token(std::int64_t id) const;
  [[nodiscard]] bool is_special(std::int64_t id) const { return special_.contains(id); }
  void mark_special(std::int64_t id) { special_.insert(id); }
  /// Returns whether a token ends or separates texts. These are [SEP], </s>, <|endoftext|> and the tokens of
  /// mark_separator(): read_vocabulary() marks the tokens that the tokenizer's files name as sep_token and
  /// eos_token.
  [[nodiscard]] bool is_separator(std::int64_t id) const { return separators_.contains(id); }
  /// Marks a token as a separator and as special.
  void mark_separator(std::int64_t id) {
    separators_.insert(id);
    special_.insert(id);
  }
  [[nodiscard]] WordMark mark() const { return mark_; }

  /// Returns a token string without the vocabulary's word mark at its beginning: "it" for "Ġit" if mark() is
  /// `byte_level`. Returns other tokens, and a token that is only the mark, unchanged.
  [[nodiscard]] std::string plain(std::string_view token) const;

  /// Returns the number of the word of each token, from 0; nullopt for special tokens. If mark() is `none`,
  /// each token is a word. Otherwise a word begins after a special token, and at a token with "Ġ" or "▁", or
  /// without "##". If the mark is "Ġ" or "▁", a word also begins at a token if the token begins, or the token
  /// before it ends, with an ASCII character that is not a letter or digit: "mat" and "." are two words.
  [[nodiscard]] std::vector<std::optional<std::size_t>> words(std::span<const std::string> tokens,
                                                              std::span<const std::int64_t> ids) const;

 private:
  std::vector<std::string> tokens_;
  TokenTable ids_;
  std::set<std::int64_t> special_;
  std::set<std::int64_t> separators_;
  WordMark mark_ = WordMark::none;
};

/// Where a model's tokenizer is: in the weights file (GGUF) or in a directory.
struct TokenizerOrigin {
  std::filesystem::path directory;  // directory of the tokenizer files; empty: none
  std::shared_ptr<const formats::TokenizerSection> section = {};  // tokenizer in the weights file; null: none

  [[nodiscard]] bool empty() const { return directory.empty() && section == nullptr; }
};

/// Reads the vocabulary of a model from the same files as Tokenizer::open(), including added and special
/// tokens. Tokenizers that Tokenizer::open() does not support are not errors. Returns an empty vocabulary if
/// no tokenizer file exists. Throws Error(bad_input) if a file is invalid.
[[nodiscard]] Vocabulary read_vocabulary(const TokenizerOrigin& origin);

}  // namespace attnctl::tokenizer

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/models/token_model.hpp"
#include "tokenizer/models/token_table.hpp"
#include "tokenizer/models/token_trie.hpp"

namespace attnctl {

/// What stands for text that the vocabulary does not have. A file may name a token that is not in its
/// vocabulary; that is an error only where it is needed.
class UnknownToken {
 public:
  UnknownToken(const TokenizerFile& file, std::string token, const TokenTable& table)
      : file_(file.name), token_(std::move(token)), id_(table.find(token_)) {}
  [[nodiscard]] const std::string& token() const { return token_; }
  [[nodiscard]] bool exists() const { return id_ >= 0; }
  /// Throws Error(bad_input) where the vocabulary has none.
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

// The models, one a file. Each takes what it needs of the file's vocabulary and merges.
[[nodiscard]] TokenModelPtr make_word_piece(TokenizerFile& file, const PartConfig& model);
[[nodiscard]] TokenModelPtr make_bpe(TokenizerFile& file, const PartConfig& model);
[[nodiscard]] TokenModelPtr make_unigram(TokenizerFile& file, const PartConfig& model);
[[nodiscard]] TokenModelPtr make_word_level(TokenizerFile& file, const PartConfig& model);

/// A trie over the tokens of a vocabulary; the values are the ids that the table gives.
[[nodiscard]] TokenTrie make_trie(const std::vector<TokenEntry>& entries, const TokenTable& table);

}  // namespace attnctl

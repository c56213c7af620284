#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/models/token_model.hpp"

namespace attnctl {
namespace {

/// Takes each piece as one token.
class WordLevel final : public TokenModel {
 public:
  WordLevel(TokenizerFile& file, std::string unk)
      : vocabulary_(std::move(*file.table)), unk_(file, std::move(unk), vocabulary_) {}

  [[nodiscard]] std::unique_ptr<State> make_state() const override { return std::make_unique<State>(); }
  void tokenize(std::string_view piece, State& /*state*/, std::vector<PieceToken>& tokens) const override {
    const std::int32_t known = vocabulary_.find(piece);
    tokens.push_back({known < 0 ? unk_.id() : known, 0, static_cast<std::uint32_t>(piece.size())});
  }

 private:
  TokenTable vocabulary_;
  UnknownToken unk_;
};

/// Takes the longest token first. A word with an unknown part becomes one unknown token.
class WordPiece final : public TokenModel {
 public:
  WordPiece(TokenizerFile& file, std::string unk, std::string_view prefix, std::size_t longest)
      : vocabulary_(std::move(*file.table)),
        unk_(file, std::move(unk), vocabulary_),
        trie_(make_trie(file.vocabulary, vocabulary_)),
        continuation_(trie_.walk(TokenTrie::kRoot, prefix)),
        longest_(longest) {}

  [[nodiscard]] std::unique_ptr<State> make_state() const override { return std::make_unique<State>(); }

  void tokenize(std::string_view piece, State& /*state*/, std::vector<PieceToken>& tokens) const override {
    const std::size_t first = tokens.size();
    if (is_too_long(piece) || !append(piece, tokens)) {
      tokens.resize(first);
      tokens.push_back({unk_.id(), 0, static_cast<std::uint32_t>(piece.size())});
    }
  }

 private:
  [[nodiscard]] bool is_too_long(std::string_view piece) const {
    if (piece.size() <= longest_) return false;
    const auto begins = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; };
    return static_cast<std::size_t>(std::count_if(piece.begin(), piece.end(), begins)) > longest_;
  }

  /// Appends the longest tokens from the left. Returns false if one is missing.
  [[nodiscard]] bool append(std::string_view piece, std::vector<PieceToken>& tokens) const {
    for (std::size_t begin = 0; begin < piece.size();) {
      PieceToken longest{-1, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(begin)};
      std::uint32_t node = begin == 0 ? TokenTrie::kRoot : continuation_;
      for (std::size_t i = begin; i < piece.size() && node != TokenTrie::kNowhere; ++i) {
        node = trie_.step(node, piece[i]);
        if (node == TokenTrie::kNowhere) break;
        const std::int32_t id = trie_.value(node);
        if (id >= 0) longest = {id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(i + 1)};
      }
      if (longest.id < 0) return false;
      tokens.push_back(longest);
      begin = longest.end;
    }
    return true;
  }

  TokenTable vocabulary_;
  UnknownToken unk_;
  TokenTrie trie_;
  std::uint32_t continuation_;  // node of the prefix of all but the first token
  std::size_t longest_;         // most characters of a word
};

}  // namespace

TokenModelPtr make_word_level(TokenizerFile& file, const PartConfig& model) {
  return std::make_unique<WordLevel>(file, model.string("unk_token"));
}

TokenModelPtr make_word_piece(TokenizerFile& file, const PartConfig& model) {
  const std::int64_t longest = model.integer("max_input_chars_per_word", 100);
  if (longest < 0) model.refuse("max_input_chars_per_word", "need an integer from 0");
  return std::make_unique<WordPiece>(file, model.string("unk_token", "[UNK]"),
                                     model.string("continuing_subword_prefix", "##"),
                                     static_cast<std::size_t>(longest));
}

}  // namespace attnctl

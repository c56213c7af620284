#include "tokenizer/models/token_model.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"

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
        trie_(file.vocabulary, vocabulary_),
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
      const auto [id, size] =
          trie_.longest(piece.substr(begin), begin == 0 ? TokenTrie::kRoot : continuation_);
      if (id < 0) return false;
      tokens.push_back({id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(begin + size)});
      begin += size;
    }
    return true;
  }

  TokenTable vocabulary_;
  UnknownToken unk_;
  TokenTrie trie_;
  std::uint32_t continuation_;  // node of the prefix of all but the first token
  std::size_t longest_;         // most characters of a word
};

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

struct Row {
  std::string_view type;
  TokenModelPtr (*make)(TokenizerFile& file, const PartConfig& model);
};

constexpr Row kModels[] = {
    {"WordPiece", make_word_piece},
    {"BPE", make_bpe},
    {"Unigram", make_unigram},
    {"WordLevel", make_word_level},
};

constexpr std::size_t kSlots = std::size_t{1} << 15;
constexpr std::size_t kMostWords = kSlots / 2;

}  // namespace

TokenModelPtr make_token_model(TokenizerFile& file) {
  if (!file.table) file.table.emplace(file.vocabulary);
  const PartConfig model = file.document().object("model");
  return find_part(model, kModels).make(file, model);
}

void UnknownToken::refuse() const {
  fail(Status::bad_input,
       "{}: /model/unk_token: the text needs the unknown token {}, which the vocabulary does not have", file_,
       in_quotes(token_));
}

std::array<std::int32_t, 256> byte_tokens(const TokenTable& vocabulary) {
  std::array<std::int32_t, 256> ids{};
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = vocabulary.find(fmt::format("<0x{:02X}>", i));
  return ids;
}

WordCache::WordCache() : slots_(kSlots) {
  words_.reserve(kMostWords * 8);
  tokens_.reserve(kMostWords * 2);
}

std::size_t WordCache::slot_of(std::string_view word, std::uint64_t hash) const {
  for (std::size_t i = hash % kSlots;; i = (i + 1) % kSlots) {
    const Slot& slot = slots_[i];
    if (slot.length == 0) return i;
    if (slot.hash == static_cast<std::uint32_t>(hash >> 32) && slot.length == word.size() &&
        std::memcmp(words_.data() + slot.word, word.data(), word.size()) == 0) {
      return i;
    }
  }
}

void WordCache::put(std::string_view word, std::uint64_t hash, std::span<const PieceToken> tokens) {
  if (word.empty() || tokens.size() > std::numeric_limits<std::uint16_t>::max()) return;
  if (taken_ == kMostWords) {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    taken_ = 0;
    words_.clear();
    tokens_.clear();
  }
  Slot& slot = slots_[slot_of(word, hash)];
  slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(words_.size()),
          static_cast<std::uint32_t>(tokens_.size()), static_cast<std::uint16_t>(tokens.size()),
          static_cast<std::uint16_t>(word.size())};
  words_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++taken_;
}

}  // namespace attnctl

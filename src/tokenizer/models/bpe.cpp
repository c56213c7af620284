#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/models/bpe_alphabet.hpp"
#include "tokenizer/models/bpe_cuts.hpp"
#include "tokenizer/models/bpe_merger.hpp"
#include "tokenizer/models/bpe_merges.hpp"
#include "tokenizer/models/models.hpp"
#include "tokenizer/models/word_cache.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

struct Options {
  bool byte_fallback = false;
  bool fuse_unk = false;
  bool ignore_merges = false;
  std::string prefix;  // on all but the first character of a word
  std::string suffix;  // on the last
};

struct BpeState final : TokenModel::State {
  WordCache cache;
  BpeMerger merger;
  std::string character;  // with its prefix and suffix
  std::vector<PieceToken> tokens;
};

class Bpe final : public TokenModel {
 public:
  Bpe(TokenizerFile& file, Options options, std::optional<std::string> unk)
      : options_(std::move(options)),
        vocabulary_(std::move(*file.table)),
        alphabet_(vocabulary_),
        merges_(read_merges(file, vocabulary_, options_.prefix.size())) {
    if (unk) unk_.emplace(file, std::move(*unk), vocabulary_);
    if (options_.byte_fallback && !alphabet_.has_bytes() && !(unk_ && unk_->exists())) {
      file.document().object("model").refuse(
          "byte_fallback", "got true, need tokens <0x00> to <0xFF> or an unk_token in the vocabulary");
    }
    const bool plain = options_.prefix.empty() && options_.suffix.empty() && !options_.ignore_merges;
    if (plain) cuts_ = find_cuts(file);
  }

  [[nodiscard]] std::unique_ptr<State> make_state() const override { return std::make_unique<BpeState>(); }
  [[nodiscard]] std::optional<std::int32_t> id(std::string_view token) const override {
    return vocabulary_.id(token);
  }
  void tokenize(std::string_view piece, State& state, std::vector<PieceToken>& tokens) const override;

 private:
  /// Shorter pieces are looked up whole.
  static constexpr std::size_t kCut = 32;  // bytes

  void append(std::string_view word, BpeState& state, std::vector<PieceToken>& tokens) const;
  void merge(std::string_view word, BpeState& state) const;
  void list_characters(std::string_view word, BpeState& state) const;
  [[nodiscard]] bool append_bytes(std::string_view character, std::vector<BpeSymbol>& symbols) const;
  [[nodiscard]] std::optional<BpeCuts> find_cuts(const TokenizerFile& file) const;
  [[nodiscard]] std::size_t next_cut(std::string_view piece, std::size_t begin) const;

  Options options_;
  TokenTable vocabulary_;
  BpeAlphabet alphabet_;
  MergeTable merges_;
  std::optional<UnknownToken> unk_;
  std::optional<BpeCuts> cuts_;
};

/// Cuts hold where every symbol is one character: no merge may begin with a byte's token or the unknown one.
std::optional<BpeCuts> Bpe::find_cuts(const TokenizerFile& file) const {
  BpeCuts cuts(file.merges.size());
  const auto is_symbol = [&](std::string_view side) {
    const bool is_byte = side.size() == 6 && side.starts_with("<0x") && side.ends_with('>');
    return is_byte || (unk_ && side == unk_->token());
  };
  for (std::size_t i = 0; i < file.merges.size(); ++i) {
    const auto [left, right] = file.merges[i];
    if (left.empty() || right.empty()) continue;  // no character gives it
    if (is_symbol(left) || is_symbol(right)) return std::nullopt;
    cuts.put(left, right);
  }
  return cuts;
}

/// The end of the part that begins at `begin`. An unknown character stays with its neighbours.
std::size_t Bpe::next_cut(std::string_view piece, std::size_t begin) const {
  bool cuttable = false;
  char32_t before = 0;
  for (std::size_t i = begin; i < piece.size();) {
    const std::size_t first = i;
    const char32_t character = unicode::next(piece, i);
    const bool known = alphabet_.find(character, piece.substr(first, i - first)) >= 0;
    if (cuttable && known && !cuts_->may_join(before, character)) return first;
    cuttable = known;
    before = character;
  }
  return piece.size();
}

void Bpe::tokenize(std::string_view piece, State& state, std::vector<PieceToken>& tokens) const {
  auto& own = static_cast<BpeState&>(state);
  if (!cuts_ || piece.size() <= kCut) {
    append(piece, own, tokens);
    return;
  }
  // A character that is dropped moves all that follows it in the piece, so places are counted along.
  std::uint32_t place = 0;
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::size_t end = next_cut(piece, begin);
    const std::size_t first = tokens.size();
    append(piece.substr(begin, end - begin), own, tokens);
    for (std::size_t i = first; i < tokens.size(); ++i) {
      tokens[i].begin += place;
      tokens[i].end += place;
    }
    if (tokens.size() > first) place = tokens.back().end;
    begin = end;
  }
}

void Bpe::append(std::string_view word, BpeState& state, std::vector<PieceToken>& tokens) const {
  const std::uint64_t hash = word.size() <= WordCache::kLongest ? hash_of(word) : 0;
  if (word.size() <= WordCache::kLongest) {
    if (const auto found = state.cache.find(word, hash); found.known) {
      tokens.insert(tokens.end(), found.tokens.begin(), found.tokens.end());
      return;
    }
  }
  state.tokens.clear();
  const std::int32_t whole = options_.ignore_merges ? vocabulary_.find(word) : -1;
  if (whole >= 0) {
    state.tokens.push_back({whole, 0, static_cast<std::uint32_t>(word.size())});
  } else {
    merge(word, state);
  }
  state.cache.put(word, hash, state.tokens);
  tokens.insert(tokens.end(), state.tokens.begin(), state.tokens.end());
}

void Bpe::merge(std::string_view word, BpeState& state) const {
  list_characters(word, state);
  state.merger.merge(merges_);
  std::uint32_t place = 0;
  for (const BpeSymbol& symbol : state.merger.symbols) {
    state.tokens.push_back({symbol.id, place, place + symbol.size});
    place += symbol.size;
  }
}

/// An unknown token is put when the next known character or unknown token comes, so the bytes of a character
/// between them overtake it: the reference does so, too.
void Bpe::list_characters(std::string_view word, BpeState& state) const {
  std::vector<BpeSymbol>& symbols = state.merger.symbols;
  symbols.clear();
  std::uint32_t unknown = 0;  // bytes that wait for their token
  const auto put_unknown = [&] {
    if (unknown > 0) symbols.push_back({unk_->id(), std::exchange(unknown, 0), {}});
  };
  for (std::size_t i = 0; i < word.size();) {
    const std::size_t first = i;
    const char32_t point = unicode::next(word, i);
    const std::string_view character = word.substr(first, i - first);
    const auto size = static_cast<std::uint32_t>(character.size());
    std::int32_t id = -1;
    const bool prefixed = first > 0 && !options_.prefix.empty();
    const bool suffixed = i == word.size() && !options_.suffix.empty();
    if (prefixed || suffixed) {
      state.character.assign(prefixed ? options_.prefix : std::string_view{});
      state.character += character;
      if (suffixed) state.character += options_.suffix;
      id = vocabulary_.find(state.character);
    } else {
      id = alphabet_.find(point, character);
    }
    if (id >= 0) {
      put_unknown();
      symbols.push_back({id, size, {}});
    } else if (!(options_.byte_fallback && append_bytes(character, symbols)) && unk_) {
      if (!options_.fuse_unk) put_unknown();
      unknown += size;
    }
  }
  put_unknown();
}

bool Bpe::append_bytes(std::string_view character, std::vector<BpeSymbol>& symbols) const {
  const auto known = [&](char byte) { return alphabet_.byte(byte) >= 0; };
  if (!std::all_of(character.begin(), character.end(), known)) return false;
  for (const char byte : character) symbols.push_back({alphabet_.byte(byte), 1, {}});
  return true;
}

}  // namespace

TokenModelPtr make_bpe(TokenizerFile& file, const PartConfig& model) {
  check_no_dropout(model);
  Options options{.byte_fallback = model.boolean("byte_fallback", false),
                  .fuse_unk = model.boolean("fuse_unk", false),
                  .ignore_merges = model.boolean("ignore_merges", false),
                  .prefix = model.string("continuing_subword_prefix", ""),
                  .suffix = model.string("end_of_word_suffix", "")};
  if (options.byte_fallback && !(options.prefix.empty() && options.suffix.empty())) {
    model.refuse("byte_fallback",
                 "unsupported together with continuing_subword_prefix or end_of_word_suffix");
  }
  std::optional<std::string> unk;
  if (model.has("unk_token")) unk = model.string("unk_token");
  return std::make_unique<Bpe>(file, std::move(options), std::move(unk));
}

}  // namespace attnctl

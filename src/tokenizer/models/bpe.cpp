#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/models/bpe_merges.hpp"
#include "tokenizer/models/token_model.hpp"
#include "tokenizer/models/word_cache.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

/// The tokens of single characters, with which merging starts.
class BpeAlphabet {
 public:
  /// `vocabulary` must outlive this.
  explicit BpeAlphabet(const TokenTable& vocabulary)
      : vocabulary_(&vocabulary), ids_(0x10000), bytes_(byte_tokens(vocabulary)) {
    for (std::size_t c = 0; c < ids_.size(); ++c) {
      ids_[c] = vocabulary.find(unicode::Utf8(static_cast<char32_t>(c)));
    }
  }

  /// Returns the id of a character, which `bytes` has as UTF-8; -1 if there is none.
  [[nodiscard]] std::int32_t find(char32_t character, std::string_view bytes) const {
    return character < ids_.size() ? ids_[character] : vocabulary_->find(bytes);
  }
  /// Returns whether any byte has a token.
  [[nodiscard]] bool has_bytes() const {
    return std::any_of(bytes_.begin(), bytes_.end(), [](std::int32_t id) { return id >= 0; });
  }
  /// Returns the id of the token <0xNN> of a byte, or -1.
  [[nodiscard]] std::int32_t byte(char value) const { return bytes_[static_cast<unsigned char>(value)]; }

 private:
  const TokenTable* vocabulary_;
  std::vector<std::int32_t> ids_;  // [code points below U+10000]
  std::array<std::int32_t, 256> bytes_{};
};

/// The pairs of characters that some merge joins. A text can be cut between all other pairs before merging,
/// because no token spans them. This turns a text without word boundaries into words that the cache knows.
/// The pairs are bits of a hash: a collision may prevent a cut, but never adds one.
class BpeCuts {
 public:
  explicit BpeCuts(std::size_t merges)
      : bits_(std::bit_ceil(std::clamp(merges * 8, kFewestBits, kMostBits)) / 64),
        shift_(64 - std::countr_zero(bits_.size() * 64)) {}

  /// Adds the two sides of a merge, which are not empty.
  void put(std::string_view left, std::string_view right) {
    std::size_t end = left.size();
    std::size_t begin = 0;
    const char32_t before = unicode::previous(left, end);
    const std::uint64_t bit = bit_of(before, unicode::next(right, begin));
    bits_[bit / 64] |= std::uint64_t{1} << bit % 64;
  }
  [[nodiscard]] bool may_join(char32_t before, char32_t after) const {
    const std::uint64_t bit = bit_of(before, after);
    return (bits_[bit / 64] >> bit % 64 & 1U) != 0;
  }

 private:
  static constexpr std::size_t kFewestBits = std::size_t{1} << 12;
  static constexpr std::size_t kMostBits = std::size_t{1} << 20;

  [[nodiscard]] std::uint64_t bit_of(char32_t before, char32_t after) const {
    const std::uint64_t pair = std::uint64_t{before} << 32 | after;
    return (pair * 0x9E3779B97F4A7C15) >> shift_;
  }

  std::vector<std::uint64_t> bits_;
  int shift_;
};

struct Options {
  bool byte_fallback = false;
  bool fuse_unk = false;
  bool ignore_merges = false;
  std::string prefix;  // of all but the first character of a word
  std::string suffix;  // of the last character
};

struct BpeState final : TokenModel::State {
  WordCache cache;
  BpeMerger merger;
  std::string character;  // with its prefix and suffix
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
  void tokenize(std::string_view piece, State& state, std::vector<PieceToken>& tokens) const override;

 private:
  /// Pieces of up to this number of bytes are looked up without cuts.
  static constexpr std::size_t kLongestUncut = 32;

  void make(std::string_view word, BpeState& state, std::vector<PieceToken>& tokens) const;
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

/// Returns the cuts; nullopt if a merge has the token of a byte or the unknown token, which are not
/// characters.
std::optional<BpeCuts> Bpe::find_cuts(const TokenizerFile& file) const {
  BpeCuts cuts(file.merges.size());
  const auto is_symbol = [&](std::string_view side) {
    const bool is_byte = side.size() == 6 && side.starts_with("<0x") && side.ends_with('>');
    return is_byte || (unk_ && side == unk_->token());
  };
  for (std::size_t i = 0; i < file.merges.size(); ++i) {
    const auto [left, right] = file.merges[i];
    if (left.empty() || right.empty()) continue;  // never merges
    if (is_symbol(left) || is_symbol(right)) return std::nullopt;
    cuts.put(left, right);
  }
  return cuts;
}

/// Returns the end of the part that starts at `begin`. An unknown character stays with its neighbours.
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
  const auto make_word = [&](std::string_view word, std::vector<PieceToken>& made) { make(word, own, made); };
  if (!cuts_ || piece.size() <= kLongestUncut) {
    own.cache.append(piece, tokens, make_word);
    return;
  }
  // Counts the bytes of the tokens instead of the piece: the reference ignores dropped characters.
  std::uint32_t place = 0;
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::size_t end = next_cut(piece, begin);
    const std::size_t first = tokens.size();
    own.cache.append(piece.substr(begin, end - begin), tokens, make_word);
    for (std::size_t i = first; i < tokens.size(); ++i) {
      tokens[i].begin += place;
      tokens[i].end += place;
    }
    if (tokens.size() > first) place = tokens.back().end;
    begin = end;
  }
}

/// Appends the tokens of a word that is not in the cache.
void Bpe::make(std::string_view word, BpeState& state, std::vector<PieceToken>& tokens) const {
  const std::int32_t whole = options_.ignore_merges ? vocabulary_.find(word) : -1;
  if (whole >= 0) {
    tokens.push_back({whole, 0, static_cast<std::uint32_t>(word.size())});
    return;
  }
  list_characters(word, state);
  state.merger.merge(merges_);
  std::uint32_t place = 0;
  for (const BpeSymbol& symbol : state.merger.symbols) {
    tokens.push_back({symbol.id, place, place + symbol.size});
    place += symbol.size;
  }
}

/// Lists the characters of a word as symbols. As in the reference, an unknown token is only put before the
/// next known character or unknown token, so the byte tokens of a character in between come first.
void Bpe::list_characters(std::string_view word, BpeState& state) const {
  std::vector<BpeSymbol>& symbols = state.merger.symbols;
  symbols.clear();
  std::uint32_t unknown = 0;  // bytes of the unknown token that is not put yet
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

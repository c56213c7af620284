#include <optional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tokenizer/models/token_model.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::tokenizer {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// Returns the merges of a file. The merged token is the left token followed by the right token without its
/// first `prefix` bytes, the continuing_subword_prefix. Throws Error(bad_input) if the vocabulary lacks one
/// of the three tokens or the right token is shorter than the prefix.
MergeTable read_merges(const TokenizerFile& file, const TokenTable& vocabulary, std::size_t prefix) {
  MergeTable table(file.merges.size());
  const auto refuse = [&](std::size_t index, std::string_view what) {
    PartConfig(file.name, fmt::format("/model/merges/{}", index), file.parts).refuse("", what);
  };
  const auto id_of = [&](std::size_t index, std::string_view token) {
    if (token.size() > vocabulary.longest()) {
      refuse(index,
             fmt::format("got {} of {} bytes, need a token of the vocabulary, whose longest has {} bytes",
                         in_quotes(token), token.size(), vocabulary.longest()));
    }
    const std::int32_t id = vocabulary.find(token);
    if (id < 0) refuse(index, fmt::format("got {}, need a token of the vocabulary", in_quotes(token)));
    return id;
  };
  std::string whole;
  for (std::size_t i = 0; i < file.merges.size(); ++i) {
    const auto [left, right] = file.merges[i];
    const std::int32_t left_id = id_of(i, left);
    const std::int32_t right_id = id_of(i, right);
    if (right.size() < prefix) {
      refuse(i, fmt::format("got {}, need a token that begins with continuing_subword_prefix",
                            in_quotes(right)));
    }
    whole.assign(left).append(right, prefix, std::string::npos);
    table.put(left_id, right_id, {static_cast<std::uint32_t>(i), id_of(i, whole)});
  }
  return table;
}

/// The set of pairs of adjacent characters that some merge joins: the last character of its left token and
/// the first of its right token. Before merging, a text can be cut between the characters of every other
/// pair, because no merge joins them. In this way a text without word boundaries is cut into short parts,
/// whose tokens may be in the cache. The set is a bit table indexed by a hash of the pair. A hash collision
/// may prevent a cut, but never adds one.
class BpeCuts {
 public:
  explicit BpeCuts(std::size_t merges)
      : bits_(std::bit_ceil(std::clamp(merges * 8, kFewestBits, kMostBits)) / 64),
        shift_(64 - std::countr_zero(bits_.size() * 64)) {}

  /// Adds the pair of characters at which a merge joins two tokens. Neither token may be empty.
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

class Bpe final : public TokenModel {
 public:
  Bpe(const PartConfig& model, TokenizerFile& file)
      : byte_fallback_(model.boolean("byte_fallback", false)),
        fuse_unk_(model.boolean("fuse_unk", false)),
        ignore_merges_(model.boolean("ignore_merges", false)),
        prefix_(model.string("continuing_subword_prefix", "")),
        suffix_(model.string("end_of_word_suffix", "")),
        vocabulary_(std::move(*file.table)),
        bytes_(vocabulary_),
        merges_(read_merges(file, vocabulary_, prefix_.size())) {
    if (model.has("dropout") && model.at("dropout").node() != 0) {  // dropout omits merges at random
      model.refuse("dropout",
                   fmt::format("unsupported {}, supported: null, 0", model.at("dropout").node().dump()));
    }
    const bool plain = prefix_.empty() && suffix_.empty();
    if (byte_fallback_ && !plain) {
      model.refuse("byte_fallback",
                   "unsupported together with continuing_subword_prefix or end_of_word_suffix");
    }
    if (model.has("unk_token")) unk_.emplace(file, model.string("unk_token"), vocabulary_);
    if (byte_fallback_ && std::ranges::max(bytes_.ids) < 0 && !(unk_ && unk_->known >= 0)) {
      model.refuse("byte_fallback",
                   "got true, need tokens <0x00> to <0xFF> or an unk_token in the vocabulary");
    }
    for (std::size_t c = 0; c < characters_.size(); ++c) {
      characters_[c] = vocabulary_.find(unicode::Utf8(static_cast<char32_t>(c)));
    }
    if (plain && !ignore_merges_) cuts_ = find_cuts(file);
  }

  void tokenize(std::string_view piece, ModelState& state, std::vector<PieceToken>& tokens) const override {
    const auto append = [&](std::string_view word) {
      state.cache.append(word, tokens, [&] { make(word, state, tokens); });
    };
    if (!cuts_ || piece.size() <= kLongestUncut) return append(piece);
    // Offsets count the bytes of the tokens, not of the piece: as in Hugging Face tokenizers, dropped
    // characters are not counted.
    std::uint32_t place = 0;
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t end = next_cut(piece, begin);
      const std::size_t first = tokens.size();
      append(piece.substr(begin, end - begin));
      for (std::size_t i = first; i < tokens.size(); ++i) {
        tokens[i].begin += place;
        tokens[i].end += place;
      }
      if (tokens.size() > first) place = tokens.back().end;
      begin = end;
    }
  }

 private:
  static constexpr std::size_t kLongestUncut = 32;  // in bytes; only longer pieces are cut

  /// Computes the tokens of a word that is not in the cache and appends them to `tokens`.
  void make(std::string_view word, ModelState& state, std::vector<PieceToken>& tokens) const {
    const std::int32_t whole = ignore_merges_ ? vocabulary_.find(word) : -1;
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

  /// Stores the tokens of the characters of a word in state.merger.symbols. Characters without a token become
  /// byte tokens (byte_fallback) or the unknown token, or are dropped if the model has neither. With
  /// fuse_unk, unknown characters become one token if no known character is between them. As in Hugging Face
  /// tokenizers, an unknown token is not added until the next known character, the next unknown token or the
  /// end of the word. If byte tokens replace a character in between, they therefore come before the unknown
  /// token.
  void list_characters(std::string_view word, ModelState& state) const {
    std::vector<BpeSymbol>& symbols = state.merger.symbols;
    symbols.clear();
    std::uint32_t unknown = 0;  // size in bytes of the unknown token that was not added yet; 0: none
    const auto put_unknown = [&] {
      if (unknown > 0) symbols.push_back({unk_->id(), std::exchange(unknown, 0), {}});
    };
    for (std::size_t i = 0; i < word.size();) {
      const std::size_t first = i;
      const char32_t point = unicode::next(word, i);
      const std::string_view character = word.substr(first, i - first);
      const auto size = static_cast<std::uint32_t>(character.size());
      std::int32_t id = -1;
      const bool prefixed = first > 0 && !prefix_.empty();
      const bool suffixed = i == word.size() && !suffix_.empty();
      if (prefixed || suffixed) {
        state.character.assign(prefixed ? prefix_ : std::string_view{});
        state.character += character;
        if (suffixed) state.character += suffix_;
        id = vocabulary_.find(state.character);
      } else {
        id = find(point, character);
      }
      if (id >= 0) {
        put_unknown();
        symbols.push_back({id, size, {}});
      } else if (byte_fallback_ && bytes_.has_all(character)) {
        for (const char byte : character) symbols.push_back({bytes_.of(byte), 1, {}});
      } else if (unk_) {
        if (!fuse_unk_) put_unknown();
        unknown += size;
      }
    }
    put_unknown();
  }

  /// Returns the pairs of characters that merges join. Returns nullopt if a merge contains a byte token or
  /// the unknown token, because these tokens are not made of characters.
  [[nodiscard]] std::optional<BpeCuts> find_cuts(const TokenizerFile& file) const {
    BpeCuts cuts(file.merges.size());
    const auto is_symbol = [&](std::string_view side) {
      return byte_of(side).has_value() || (unk_ && side == unk_->token);
    };
    for (std::size_t i = 0; i < file.merges.size(); ++i) {
      const auto [left, right] = file.merges[i];
      if (left.empty() || right.empty()) continue;  // a merge with an empty token is never applied
      if (is_symbol(left) || is_symbol(right)) return std::nullopt;
      cuts.put(left, right);
    }
    return cuts;
  }

  /// Returns where the part of `piece` that starts at byte `begin` ends. A piece is never cut next to an
  /// unknown character.
  [[nodiscard]] std::size_t next_cut(std::string_view piece, std::size_t begin) const {
    bool cuttable = false;
    char32_t before = 0;
    for (std::size_t i = begin; i < piece.size();) {
      const std::size_t first = i;
      const char32_t character = unicode::next(piece, i);
      const bool known = find(character, piece.substr(first, i - first)) >= 0;
      if (cuttable && known && !cuts_->may_join(before, character)) return first;
      cuttable = known;
      before = character;
    }
    return piece.size();
  }

  /// Returns the id of the token for a character, whose UTF-8 is `bytes`; -1 if there is none.
  [[nodiscard]] std::int32_t find(char32_t character, std::string_view bytes) const {
    return character < characters_.size() ? characters_[character] : vocabulary_.find(bytes);
  }

  bool byte_fallback_;
  bool fuse_unk_;
  bool ignore_merges_;
  std::string prefix_;  // put before each character of a word except the first
  std::string suffix_;  // put after the last character of a word
  TokenTable vocabulary_;
  std::vector<std::int32_t> characters_ = std::vector<std::int32_t>(0x10000);  // code point -> token id or -1
  ByteTokens bytes_;
  MergeTable merges_;
  std::optional<UnknownToken> unk_;
  std::optional<BpeCuts> cuts_;
};

}  // namespace

void BpeMerger::merge_short(const MergeTable& merges) {
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    symbols[i].next = merges.find(symbols[i].id, symbols[i + 1].id);
  }
  if (!symbols.empty()) symbols.back().next = {};
  while (symbols.size() > 1) {
    const auto best =
        std::min_element(symbols.begin(), symbols.end(),
                         [](const BpeSymbol& a, const BpeSymbol& b) { return a.next.rank < b.next.rank; });
    if (!best->next.exists()) break;
    const auto right = best + 1;
    best->id = best->next.id;
    best->size += right->size;
    symbols.erase(right);
    if (best != symbols.begin()) (best - 1)->next = merges.find((best - 1)->id, best->id);
    best->next = best + 1 == symbols.end() ? MergeTable::Merge{} : merges.find(best->id, (best + 1)->id);
  }
}

void BpeMerger::push(const MergeTable& merges, std::uint32_t left, std::uint32_t right) {
  const MergeTable::Merge merge = merges.find(symbols[left].id, symbols[right].id);
  if (!merge.exists()) return;
  waiting_.push_back({merge.rank, left, merge.id});
  std::push_heap(waiting_.begin(), waiting_.end());
}

void BpeMerger::merge_long(const MergeTable& merges) {
  const auto count = static_cast<std::uint32_t>(symbols.size());
  waiting_.clear();
  links_.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    links_[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
    if (i + 1 < count) push(merges, i, i + 1);
  }
  while (!waiting_.empty()) {
    std::pop_heap(waiting_.begin(), waiting_.end());
    const MergeCandidate best = waiting_.back();
    waiting_.pop_back();
    BpeSymbol& left = symbols[best.place];
    const std::uint32_t right = links_[best.place].next;
    // Skips the candidate if one of its symbols has since merged with another symbol.
    if (left.size == 0 || right == kNone) continue;
    if (merges.find(left.id, symbols[right].id).id != best.id) continue;
    left.id = best.id;
    left.size += symbols[right].size;
    symbols[right].size = 0;
    const std::uint32_t next = links_[right].next;
    links_[best.place].next = next;
    if (next != kNone) links_[next].previous = best.place;
    if (links_[best.place].previous != kNone) push(merges, links_[best.place].previous, best.place);
    if (next != kNone) push(merges, best.place, next);
  }
  std::erase_if(symbols, [](const BpeSymbol& symbol) { return symbol.size == 0; });
}

TokenModelPtr make_bpe(const PartConfig& model, TokenizerFile& file) {
  return std::make_unique<Bpe>(model, file);
}

}  // namespace attnctl::tokenizer

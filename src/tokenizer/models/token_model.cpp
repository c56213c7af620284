#include "tokenizer/models/token_model.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::tokenizer {
namespace {

class WordLevel final : public TokenModel {
 public:
  WordLevel(const PartConfig& model, TokenizerFile& file)
      : vocabulary_(std::move(*file.table)), unk_(file, model.string("unk_token"), vocabulary_) {}

  void tokenize(std::string_view piece, ModelState& /*state*/,
                std::vector<PieceToken>& tokens) const override {
    const std::int32_t known = vocabulary_.find(piece);
    tokens.push_back({known < 0 ? unk_.id() : known, 0, static_cast<std::uint32_t>(piece.size())});
  }

 private:
  TokenTable vocabulary_;
  UnknownToken unk_;
};

/// A model that takes the longest token at the beginning of the rest of a word, again and again. All tokens
/// of a word except the first have the continuing_subword_prefix (default: "##"). If no token fits at some
/// position, or if the word is longer than max_input_chars_per_word, the whole word is one unknown token.
class WordPiece final : public TokenModel {
 public:
  WordPiece(const PartConfig& model, TokenizerFile& file)
      : vocabulary_(std::move(*file.table)),
        unk_(file, model.string("unk_token", "[UNK]"), vocabulary_),
        trie_(file.vocabulary, vocabulary_),
        continuation_(trie_.walk(model.string("continuing_subword_prefix", "##"))) {
    const std::int64_t longest = model.integer("max_input_chars_per_word", 100);
    if (longest < 0)
      model.refuse("max_input_chars_per_word", fmt::format("got {}, need at least 0", longest));
    longest_ = static_cast<std::size_t>(longest);
  }

  void tokenize(std::string_view piece, ModelState& /*state*/,
                std::vector<PieceToken>& tokens) const override {
    const std::size_t first = tokens.size();
    const bool is_too_long = piece.size() > longest_ && unicode::count_code_points(piece) > longest_;
    if (is_too_long || !append(piece, tokens)) {
      tokens.resize(first);
      tokens.push_back({unk_.id(), 0, static_cast<std::uint32_t>(piece.size())});
    }
  }

 private:
  /// Appends the tokens of a word. Returns false if no token fits at some position; then `tokens` may have
  /// the tokens before that position.
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
  std::uint32_t continuation_;  // trie node of the prefix that all tokens of a word except the first have
  std::size_t longest_ = 0;     // largest number of characters in a word; longer words are unknown
};

constexpr double kUnknownPenalty = 10;
constexpr std::int32_t kNoToken = -1;

class Unigram final : public TokenModel {
 public:
  Unigram(const PartConfig& model, TokenizerFile& file)
      : file_(file.name),
        vocabulary_(std::move(*file.table)),
        trie_(file.vocabulary, vocabulary_),
        bytes_(vocabulary_),
        byte_fallback_(model.boolean("byte_fallback", false)) {
    if (model.has("unk_id")) {
      const std::int64_t id = model.integer("unk_id");
      if (id < 0 || static_cast<std::size_t>(id) >= file.vocabulary.size()) {
        model.refuse("unk_id", fmt::format("got {}, need an id below {}", id, file.vocabulary.size()));
      }
      unk_ = static_cast<std::int32_t>(id);
    }
    if (byte_fallback_ && unk_ == kNoToken && std::ranges::max(bytes_.ids) < 0) {
      model.refuse("byte_fallback", "got true, need tokens <0x00> to <0xFF> or an unk_id");
    }
    double least = std::numeric_limits<double>::infinity();
    for (const auto& entry : file.vocabulary) {
      scores_.push_back(entry.score);
      least = std::min(least, entry.score);
    }
    unknown_score_ = least - kUnknownPenalty;
  }

  [[nodiscard]] std::int32_t verbatim() const override { return unk_; }

  void tokenize(std::string_view piece, ModelState& state, std::vector<PieceToken>& tokens) const override {
    state.cache.append(piece, tokens, [&] {
      search(piece, state.best);
      collect(state.best, state.unigram_tokens);
      for (const PieceToken& token : state.unigram_tokens) put(piece, token, tokens);
    });
  }

 private:
  /// Finds the best tokenization of the bytes before each position of a piece (Viterbi search). Of
  /// tokenizations with equal scores, keeps the one whose last token starts earlier. Throws Error(bad_input)
  /// if a character has no token and the model has no unknown token.
  void search(std::string_view piece, std::vector<BestTokenization>& best) const {
    best.assign(piece.size() + 1, {});
    const auto offer = [&](std::size_t begin, std::size_t end, double score, std::int32_t id) {
      BestTokenization& target = best[end];
      if (target.id == kNoToken || score > target.score)
        target = {score, static_cast<std::uint32_t>(begin), id};
    };
    for (std::size_t begin = 0; begin < piece.size();) {
      const double score = best[begin].score;
      std::size_t next = begin;
      unicode::next(piece, next);
      bool has_single = false;  // true if the vocabulary has this character as a token
      std::uint32_t node = TokenTrie::kRoot;
      for (std::size_t i = begin; i < piece.size(); ++i) {
        node = trie_.step(node, piece[i]);
        if (node == TokenTrie::kNowhere) break;
        const std::int32_t id = trie_.id(node);
        if (id < 0) continue;
        offer(begin, i + 1, score + scores_[static_cast<std::size_t>(id)], id);
        has_single |= i + 1 == next;
      }
      if (!has_single) {
        if (unk_ == kNoToken) {
          refuse(file_, "/model/unk_id: missing, but the text has a character without a token");
        }
        offer(begin, next, score + unknown_score_, unk_);
      }
      begin = next;
    }
  }

  /// Stores the tokens of the best tokenization in `path`, in order. Joins adjacent unknown tokens into one.
  void collect(std::span<const BestTokenization> best, std::vector<PieceToken>& path) const {
    path.clear();
    for (auto end = static_cast<std::uint32_t>(best.size() - 1); end > 0; end = best[end].begin) {
      const BestTokenization& last = best[end];
      if (last.id == unk_ && !path.empty() && path.back().id == unk_) {
        path.back().begin = last.begin;
      } else {
        path.push_back({last.id, last.begin, end});
      }
    }
    std::ranges::reverse(path);
  }

  /// Appends a token to `tokens`. With byte_fallback, if the token is unknown and all of its bytes have byte
  /// tokens, appends these instead; each has the range of the whole unknown text.
  void put(std::string_view piece, const PieceToken& token, std::vector<PieceToken>& tokens) const {
    if (token.id != unk_) {
      tokens.push_back(token);
      return;
    }
    const std::string_view text = piece.substr(token.begin, token.end - token.begin);
    // The text may be the string of the unknown token itself, such as "<unk>".
    const std::int32_t known = vocabulary_.find(text);
    if (byte_fallback_ && known < 0 && bytes_.has_all(text)) {
      for (const char byte : text) tokens.push_back({bytes_.of(byte), token.begin, token.end});
    } else {
      tokens.push_back({known >= 0 ? known : unk_, token.begin, token.end});
    }
  }

  std::string file_;
  TokenTable vocabulary_;
  TokenTrie trie_;
  ByteTokens bytes_;
  std::vector<double> scores_;  // [ids], log probability of each token
  double unknown_score_ = 0;
  std::int32_t unk_ = kNoToken;  // id of the unknown token; kNoToken if there is none
  bool byte_fallback_;
};

template <typename Model>
TokenModelPtr make(const PartConfig& model, TokenizerFile& file) {
  return std::make_unique<Model>(model, file);
}

constexpr PartRow<TokenModelPtr, TokenizerFile&> kModels[] = {
    {"WordPiece", make<WordPiece>},
    {"BPE", make_bpe},
    {"Unigram", make<Unigram>},
    {"WordLevel", make<WordLevel>},
};

}  // namespace

TokenModelPtr make_token_model(TokenizerFile& file) {
  const PartConfig model = file.document().object("model");
  return find_part(model, kModels).make(model, file);
}

std::int32_t UnknownToken::id() const {
  if (known >= 0) return known;
  refuse(file, "/model/unk_token: the text needs the unknown token {}, which is not in the vocabulary",
         in_quotes(token));
}

ByteTokens::ByteTokens(const TokenTable& vocabulary) {
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = vocabulary.find(fmt::format("<0x{:02X}>", i));
}

}  // namespace attnctl::tokenizer

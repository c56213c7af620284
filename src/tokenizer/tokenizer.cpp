#include "tokenizer/tokenizer.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/models/token_model.hpp"
#include "tokenizer/parts/parts.hpp"

namespace attnctl::tokenizer {
namespace {

/// Returns make(value under a key); an empty function if the value is missing or null.
template <typename Make>
auto make_optional(const PartConfig& document, std::string_view key, Make make) -> decltype(make(document)) {
  if (!document.has(key)) return {};
  return make(document.object(key));
}

void require_text(std::string_view text) {
  if (text.size() > kLongestText) {
    fail(Status::bad_input, "the text has {} bytes, need at most {}; split it into several inputs",
         text.size(), kLongestText);
  }
  if (const auto invalid = find_ill_formed_utf8(text)) {
    fail(Status::bad_input, "text: @byte {}: not UTF-8; convert the text to UTF-8", *invalid);
  }
}

void clear(Encoding& encoding) {
  Encoding::for_each_list([&](auto list) { (encoding.*list).clear(); });
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(TokenizerFile& file)
      : vocabulary(make_vocabulary(file)),
        normalizer(make_optional(file.document(), "normalizer", make_normalizer)),
        cut_raw(make_added_tokens(file.added_tokens, false, normalizer)),
        cut_normalized(make_added_tokens(file.added_tokens, true, normalizer)),
        pre_tokenizer(make_optional(file.document(), "pre_tokenizer", make_pre_tokenizer)),
        post_processor(
            make_optional(file.document(), "post_processor",
                          [this](const PartConfig& part) { return make_post_processor(part, vocabulary); })),
        unapplied(
            PartConfig::Json::object({{"truncation", file.parts.value("truncation", PartConfig::Json())},
                                      {"padding", file.parts.value("padding", PartConfig::Json())}})),
        model(make_token_model(file)) {
    if (file.document().has("decoder")) check_decoder(file.document().object("decoder"));
  }

  Vocabulary vocabulary;
  TextStep normalizer;
  TextStep cut_raw, cut_normalized;  // cut at added tokens, before and after `normalizer`
  TextStep pre_tokenizer;
  PostProcessor post_processor;
  PartConfig::Json unapplied;
  TokenModelPtr model;
};

struct Tokenizer::State {
  /// Encodes one text into `tokenized`, which must be empty. `sequence` is 0 for a single text or
  /// the first text of a pair, and 1 for the second.
  void encode(const Parts& parts, std::string_view text, std::uint8_t sequence, TokenizedText& tokenized) {
    Encoding& encoding = tokenized.encoding;
    pieces.assign(text);
    parts.cut_raw(pieces);
    if (parts.normalizer) parts.normalizer(pieces);
    parts.cut_normalized(pieces);
    if (parts.pre_tokenizer) parts.pre_tokenizer(pieces);
    const std::int32_t verbatim = parts.model->verbatim();
    std::uint32_t word = 0;
    for (const PieceText::Piece& piece : pieces.pieces()) {
      const std::string_view piece_text = pieces.text(piece);
      tokens.clear();
      if (piece.is_text()) {
        parts.model->tokenize(piece_text, model, tokens);
      } else {
        tokens.push_back({piece.token, 0, static_cast<std::uint32_t>(piece_text.size())});
      }
      for (const PieceToken& token : tokens) {
        if (!piece.is_text() || token.id == verbatim) {
          const std::string_view string = piece_text.substr(token.begin, token.end - token.begin);
          tokenized.found.push_back({encoding.size(), edge_space(string)});
        }
        encoding.ids.push_back(token.id);
        encoding.offsets.push_back(pieces.origin(piece.begin + token.begin, piece.begin + token.end));
        encoding.words.emplace_back(word);
      }
      ++word;
    }
    encoding.type_ids.resize(encoding.size(), sequence);
    encoding.special.resize(encoding.size(), 0);
    encoding.sequence.resize(encoding.size(), sequence);
  }

  std::vector<TokenizedText> texts;
  PieceText pieces;
  TokenModel::ModelState model;
  std::vector<PieceToken> tokens;
};

constexpr std::string_view kNoTokenizer =
    "no tokenizer; a text needs a model directory with tokenizer.json, vocab.txt, vocab.json with "
    "merges.txt, "
    "tokenizer.model, spiece.model or sentencepiece.bpe.model";

Tokenizer::Tokenizer(TokenizerFile& file) : parts_(std::make_shared<const Parts>(file)) {}

Tokenizer Tokenizer::open(const TokenizerOrigin& origin) {
  std::optional<TokenizerFile> file = read_tokenizer_file(origin);
  if (!file)
    refuse(escaped(origin.model.empty() ? origin.directory.string() : origin.model), "{}", kNoTokenizer);
  return Tokenizer(*file);
}

Tokenizer::StatePtr Tokenizer::make_state() const {
  return std::make_shared<State>();
}

void Tokenizer::encode(std::string_view text, std::optional<std::string_view> pair, State& state,
                       Encoding& encoding) const {
  require_text(text);
  if (pair) require_text(*pair);
  std::vector<TokenizedText>& texts = state.texts;
  texts.resize(pair ? 2 : 1);
  for (TokenizedText& each : texts) {
    clear(each.encoding);
    each.found.clear();
  }
  state.encode(*parts_, text, 0, texts[0]);
  if (pair) state.encode(*parts_, *pair, 1, texts[1]);
  if (parts_->post_processor) parts_->post_processor(texts);
  if (texts.size() == 1) {
    std::swap(encoding, texts[0].encoding);
    return;
  }
  clear(encoding);
  for (const TokenizedText& each : texts) {
    Encoding::for_each_list([&, &more = each.encoding](auto list) {
      (encoding.*list).insert((encoding.*list).end(), (more.*list).begin(), (more.*list).end());
    });
  }
}

const Vocabulary& Tokenizer::vocabulary() const {
  return parts_->vocabulary;
}

const nlohmann::ordered_json& Tokenizer::unapplied() const {
  return parts_->unapplied;
}

void refuse_text(std::string_view model) {
  refuse(escaped(model),
         "{}; without a tokenizer, give --ids 1,2,3, or --input FILE.jsonl with \"ids\" or \"tokens\"",
         kNoTokenizer);
}

}  // namespace attnctl::tokenizer

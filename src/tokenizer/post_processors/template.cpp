#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/post_processors/post_processor.hpp"

namespace attnctl {
namespace {

/// A piece of a template: the text `sequence`, or special tokens.
struct Piece {
  std::vector<std::int64_t> ids = {};  // of special tokens
  std::int64_t type_id = 0;
  std::uint8_t sequence = 0;  // for special tokens, that of the text before them, or of the first text
  bool is_text = false;
  bool is_last_use = false;  // of the text
};
using Template = std::vector<Piece>;

void apply(const Template& pieces, std::vector<TokenizedText>& texts) {
  std::vector<TokenizedText> made;
  made.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    if (piece.is_text) {
      TokenizedText& text = texts[piece.sequence];
      made.push_back(piece.is_last_use ? std::move(text) : text);
      Encoding& encoding = made.back().encoding;
      std::fill(encoding.type_ids.begin(), encoding.type_ids.end(), piece.type_id);
      std::fill(encoding.sequence.begin(), encoding.sequence.end(), piece.sequence);
    } else {
      TokenizedText& special = made.emplace_back();
      for (const std::int64_t id : piece.ids) push_back(special, {id, piece.type_id, piece.sequence});
    }
  }
  texts.swap(made);
}

/// Reads one of the texts: {"Sequence": {"id": "A", "type_id": 0}}.
Piece read_text_piece(const PartConfig& config, bool pair) {
  constexpr std::string_view kNames[] = {"A", "B"};
  const std::string name = config.string("id");
  Piece piece;
  piece.is_text = true;
  piece.type_id = read_id(config, "type_id", config.at("type_id").node());
  piece.sequence = name == "B" ? 1 : 0;
  if (name != kNames[piece.sequence]) config.unsupported("id", name, kNames);
  if (piece.sequence == 1 && !pair) config.refuse("id", "\"B\" in the template of a single text");
  return piece;
}

/// Reads {"SpecialToken": {"id": "[CLS]", "type_id": 0}}. The id is a key of `special_tokens`.
Piece read_special_piece(const PartConfig& config, const PartConfig& special_tokens) {
  const std::string name = config.string("id");
  if (!special_tokens.has(name)) config.refuse("id", in_quotes(name) + " is not among the special_tokens");
  const PartConfig token = special_tokens.object(name);
  Piece piece;
  piece.type_id = read_id(config, "type_id", config.at("type_id").node());
  for (const PartConfig& id : token.at("ids").elements()) {
    piece.ids.push_back(read_id(token, "ids", id.node()));
  }
  return piece;
}

/// Sets `sequence` of special tokens, and `is_last_use` of texts.
void link(Template& pieces) {
  std::uint8_t sequence = 0;
  const auto first =
      std::find_if(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.is_text; });
  if (first != pieces.end()) sequence = first->sequence;
  for (Piece& piece : pieces) {
    if (piece.is_text) sequence = piece.sequence;
    piece.sequence = sequence;
  }
  bool used[2] = {};
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    if (piece->is_text) piece->is_last_use = !std::exchange(used[piece->sequence], true);
  }
}

Template read_template(const PartConfig& config, std::string_view key, const PartConfig& special_tokens) {
  constexpr std::size_t kMostPieces = 1000;  // each may copy the whole text
  const std::vector<PartConfig> elements = config.objects(key);
  if (elements.size() > kMostPieces) {
    config.refuse(key, fmt::format("expected at most {} pieces, found {}", kMostPieces, elements.size()));
  }
  Template pieces;
  for (const PartConfig& element : elements) {
    if (element.node().size() != 1)
      element.refuse("", "expected an object with either Sequence or SpecialToken");
    const std::string kind = element.node().begin().key();
    if (kind == "Sequence") {
      pieces.push_back(read_text_piece(element.object(kind), key == "pair"));
    } else if (kind == "SpecialToken") {
      pieces.push_back(read_special_piece(element.object(kind), special_tokens));
    } else {
      constexpr std::string_view kKinds[] = {"Sequence", "SpecialToken"};
      element.unsupported("", kind, kKinds);
    }
  }
  link(pieces);
  return pieces;
}

}  // namespace

PostProcessor make_template(const PartConfig& config, const Vocabulary& /*vocabulary*/) {
  const PartConfig special_tokens = config.object("special_tokens");
  return [place = fmt::format("{}: {}", config.file(), shown(config.pointer())),
          single = read_template(config, "single", special_tokens),
          pair = read_template(config, "pair", special_tokens)](std::vector<TokenizedText>& texts) {
    if (texts.empty() || texts.size() > 2) {
      fail(Status::bad_input,
           "{}: unsupported: a template after one that leaves {} pieces, supported: one or two", place,
           texts.size());
    }
    apply(texts.size() == 1 ? single : pair, texts);
  };
}

}  // namespace attnctl

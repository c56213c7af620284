#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/shown.hpp"
#include "tokenizer/post_processors/post_processor_parts.hpp"

namespace attnctl {
namespace {

/// A piece of a template: one of the texts, or special tokens.
struct Piece {
  std::vector<std::int64_t> ids = {};  // of special tokens; empty: the text `sequence`
  std::int64_t type_id = 0;
  std::uint8_t sequence = 0;  // of special tokens that of the text before them, else behind them
  bool is_text = false;
  bool is_last_use = false;  // of the text
};
using Template = std::vector<Piece>;

std::size_t count_added(const Template& pieces) {
  std::size_t count = 0;
  for (const Piece& piece : pieces) count += piece.ids.size();
  return count;
}

class TemplateProcessing final : public PostProcessor {
 public:
  TemplateProcessing(std::string place, Template single, Template pair)
      : place_(std::move(place)), single_(std::move(single)), pair_(std::move(pair)) {}

  void process(std::vector<TokenizedText>& texts) const override {
    if (texts.empty() || texts.size() > 2) {
      fail(Status::bad_input,
           "{}: unsupported: a template behind one that leaves {} pieces, supported: one or two", place_,
           texts.size());
    }
    std::vector<TokenizedText> made;
    const Template& pieces = texts.size() == 1 ? single_ : pair_;
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
  [[nodiscard]] std::size_t added(bool pair) const override { return count_added(pair ? pair_ : single_); }

 private:
  std::string place_;  // for errors
  Template single_;
  Template pair_;
};

/// {"Sequence": {"id": "A", "type_id": 0}}: one of the texts.
Piece read_text_piece(const PartConfig& config, bool pair) {
  constexpr std::string_view names[] = {"A", "B"};
  const std::string name = config.string("id");
  Piece piece;
  piece.is_text = true;
  piece.type_id = read_id(config, "type_id", config.at("type_id").node());
  piece.sequence = name == "B" ? 1 : 0;
  if (name != names[piece.sequence]) config.unsupported("id", name, names);
  if (piece.sequence == 1 && !pair) config.refuse("id", "\"B\" in the template of a single text");
  return piece;
}

/// {"SpecialToken": {"id": "[CLS]", "type_id": 0}}: a key of `special_tokens`, which has its ids.
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

/// Tells special tokens the text they stand by, and which use of a text is its last.
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
  constexpr std::size_t most_pieces = 1000;  // each may be a copy of the whole text
  const std::vector<PartConfig> elements = config.objects(key);
  if (elements.size() > most_pieces) {
    config.refuse(key, fmt::format("expected at most {} pieces, found {}", most_pieces, elements.size()));
  }
  Template pieces;
  for (const PartConfig& element : elements) {
    if (element.node().size() != 1) element.refuse("", "expected Sequence or SpecialToken alone");
    const std::string kind = element.node().begin().key();
    if (kind == "Sequence") {
      pieces.push_back(read_text_piece(element.object(kind), key == "pair"));
    } else if (kind == "SpecialToken") {
      pieces.push_back(read_special_piece(element.object(kind), special_tokens));
    } else {
      constexpr std::string_view kinds[] = {"Sequence", "SpecialToken"};
      element.unsupported("", kind, kinds);
    }
  }
  link(pieces);
  return pieces;
}

}  // namespace

PostProcessorPtr make_template(const PartConfig& config, const TokenStrings& /*strings*/) {
  const PartConfig special_tokens = config.object("special_tokens");
  Template single = read_template(config, "single", special_tokens);
  Template pair = read_template(config, "pair", special_tokens);
  return std::make_unique<const TemplateProcessing>(
      fmt::format("{}: {}", config.file(), shown(config.pointer())), std::move(single), std::move(pair));
}

}  // namespace attnctl

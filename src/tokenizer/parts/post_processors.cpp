#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

bool is_space(char32_t c) {
  if (c > U' ' && c < 0x7F) return false;  // visible ASCII characters, tested first for speed
  return c == byte_level::kSpace || unicode::is_white_space(c);
}

/// Shortens the offset range of each token so that it does not contain the white space at the ends of the
/// token.
void trim_offsets(TokenizedText& text, bool prefix_space, const Vocabulary& vocabulary) {
  auto found = text.found.cbegin();
  Encoding& encoding = text.encoding;
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const bool was_found = found != text.found.cend() && found->token == i;
    EdgeSpace space = was_found ? found++->space
                                : edge_space(vocabulary.token(encoding.ids[i]).value_or(std::string_view()));
    auto& [begin, end] = encoding.offsets[i];
    // A single space before the first token was added by the tokenizer and is not in the text. As in Hugging
    // Face tokenizers, several spaces are removed from the range.
    if (prefix_space && space.leading == 1 && (i == 0 || begin == 0)) space.leading = 0;
    begin = std::min(begin + space.leading, end);
    if (end >= space.trailing) end = std::max(end - space.trailing, begin);
  }
}

/// A special token that a post-processor adds.
struct SpecialToken {
  std::int64_t id = 0;
  std::int64_t type_id = 0;
  std::uint8_t sequence = 0;
};

/// Inserts a special token before the token with index `at`.
void insert(TokenizedText& text, std::size_t at, const SpecialToken& token) {
  Encoding& encoding = text.encoding;
  const auto put = [at](auto& all, auto value) {
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), value);
  };
  put(encoding.ids, token.id);
  put(encoding.type_ids, token.type_id);
  put(encoding.offsets, TextRange{});
  put(encoding.words, std::optional<std::uint32_t>());
  put(encoding.special, std::uint8_t{1});
  put(encoding.sequence, token.sequence);
  for (TokenizedText::Found& each : text.found) each.token += each.token >= at ? 1 : 0;
}

void push_back(TokenizedText& text, const SpecialToken& token) {
  insert(text, text.encoding.size(), token);
}

/// Returns `value`, the value of `config` under `key`, as an id. Throws Error(bad_input) unless it is an
/// integer from 0 to 2^32 - 1.
std::int64_t read_id(const PartConfig& config, std::string_view key, const PartConfig::Json& value) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint32_t>::max();
  // Values that were parsed from a file are unsigned; values that attnctl made itself are signed.
  const bool natural =
      value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  if (!natural || value.get<std::uint64_t>() > kLargest) {
    config.refuse(key, fmt::format("expected ids from 0 to {}, found {}", kLargest,
                                   value.is_number() ? value.dump() : value.type_name()));
  }
  return value.get<std::int64_t>();
}

PostProcessor make_sequence(const PartConfig& config, const Vocabulary& vocabulary) {
  std::vector<PostProcessor> parts;
  for (const PartConfig& part : config.objects("processors")) {
    parts.push_back(make_post_processor(part, vocabulary));
  }
  return [parts = std::move(parts)](std::vector<TokenizedText>& texts) {
    for (const PostProcessor& part : parts) part(texts);
  };
}

/// Returns a post-processor that adds no tokens. If trim_offsets is true, it only trims the offsets.
PostProcessor make_byte_level(const PartConfig& config, const Vocabulary& vocabulary) {
  return [trim = config.boolean("trim_offsets"), prefix_space = config.boolean("add_prefix_space"),
          &vocabulary](std::vector<TokenizedText>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (trim) trim_offsets(texts[i], prefix_space, vocabulary);
      auto& sequence = texts[i].encoding.sequence;
      std::fill(sequence.begin(), sequence.end(), static_cast<std::uint8_t>(std::min<std::size_t>(i, 1)));
    }
  };
}

/// Returns the id of a token that is described by a pair such as ["[SEP]", 102].
std::int64_t read_end(const PartConfig& config, std::string_view key) {
  const PartConfig::Json& pair = config.at(key).node();
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) {
    config.refuse(key, "expected a token and its id, as [\"[SEP]\", 102]");
  }
  return read_id(config, key, pair[1]);
}

/// Returns a post-processor that makes [CLS] A [SEP] from one text, and [CLS] A [SEP] B [SEP] from a pair.
PostProcessor make_bert(const PartConfig& config, const Vocabulary& /*vocabulary*/) {
  // Hugging Face tokenizers distinguish BertProcessing and RobertaProcessing by their fields, not by "type".
  if (config.has("trim_offsets") && config.has("add_prefix_space")) {
    config.refuse("trim_offsets", "unsupported in BertProcessing: it is one of RobertaProcessing");
  }
  return [cls = read_end(config, "cls"), sep = read_end(config, "sep")](std::vector<TokenizedText>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::uint8_t sequence = i == 0 ? 0 : 1;
      if (i == 0) insert(texts[i], 0, {cls, 0, 0});
      push_back(texts[i], {sep, sequence, sequence});
    }
  };
}

/// Returns a post-processor that makes <s> A </s> from one text, and <s> A </s> </s> B </s> from a pair. All
/// token types are 0.
PostProcessor make_roberta(const PartConfig& config, const Vocabulary& vocabulary) {
  return [prefix_space = config.boolean("add_prefix_space"), trim = config.boolean("trim_offsets"),
          cls = read_end(config, "cls"), sep = read_end(config, "sep"),
          &vocabulary](std::vector<TokenizedText>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      TokenizedText& text = texts[i];
      const std::uint8_t sequence = i == 0 ? 0 : 1;
      if (trim) trim_offsets(text, prefix_space, vocabulary);
      std::fill(text.encoding.type_ids.begin(), text.encoding.type_ids.end(), 0);
      insert(text, 0, {i == 0 ? cls : sep, 0, sequence});
      push_back(text, {sep, 0, sequence});
    }
  };
}

/// An element of a template: a text (`is_text`) or special tokens.
struct TemplatePart {
  std::vector<std::int64_t> ids = {};  // ids of the special tokens
  std::int64_t type_id = 0;
  /// For a text, its number, 0 or 1. For special tokens, the number of the text before them, or of the
  /// template's first text if there is none.
  std::uint8_t sequence = 0;
  bool is_text = false;
  bool is_last_use = false;  // true if no later element of the template is the same text
};
using Template = std::vector<TemplatePart>;

void apply(const Template& pieces, std::vector<TokenizedText>& texts) {
  std::vector<TokenizedText> made;
  made.reserve(pieces.size());
  for (const TemplatePart& piece : pieces) {
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

/// Reads a template element that is a text: {"Sequence": {"id": "A", "type_id": 0}}.
TemplatePart read_text_piece(const PartConfig& config, bool pair) {
  constexpr std::string_view kNames[] = {"A", "B"};
  TemplatePart piece;
  piece.is_text = true;
  piece.sequence = static_cast<std::uint8_t>(config.choice("id", kNames));
  piece.type_id = read_id(config, "type_id", config.at("type_id").node());
  if (piece.sequence == 1 && !pair) config.refuse("id", "\"B\" in the template of a single text");
  return piece;
}

/// Reads a template element that is a special token: {"SpecialToken": {"id": "[CLS]", "type_id": 0}}. The
/// "id" must be a key of `special_tokens`.
TemplatePart read_special_piece(const PartConfig& config, const PartConfig& special_tokens) {
  const std::string name = config.string("id");
  if (!special_tokens.has(name)) config.refuse("id", in_quotes(name) + " is not among the special_tokens");
  const PartConfig token = special_tokens.object(name);
  TemplatePart piece;
  piece.type_id = read_id(config, "type_id", config.at("type_id").node());
  for (const PartConfig& id : token.at("ids").elements()) {
    piece.ids.push_back(read_id(token, "ids", id.node()));
  }
  return piece;
}

/// Sets `sequence` of the special tokens and `is_last_use` of the texts in a template.
void link(Template& pieces) {
  std::uint8_t sequence = 0;
  const auto first =
      std::find_if(pieces.begin(), pieces.end(), [](const TemplatePart& piece) { return piece.is_text; });
  if (first != pieces.end()) sequence = first->sequence;
  for (TemplatePart& piece : pieces) {
    if (piece.is_text) sequence = piece.sequence;
    piece.sequence = sequence;
  }
  bool used[2] = {};
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    if (piece->is_text) piece->is_last_use = !std::exchange(used[piece->sequence], true);
  }
}

Template read_template(const PartConfig& config, std::string_view key, const PartConfig& special_tokens) {
  constexpr std::size_t kMostPieces = 1000;  // a limit, because each element may copy the whole text
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

/// Returns a post-processor that adds special tokens according to templates: "single" for one text, "pair"
/// for two.
PostProcessor make_template(const PartConfig& config, const Vocabulary& /*vocabulary*/) {
  const PartConfig special_tokens = config.object("special_tokens");
  return [place = config.place(), single = read_template(config, "single", special_tokens),
          pair = read_template(config, "pair", special_tokens)](std::vector<TokenizedText>& texts) {
    if (texts.empty() || texts.size() > 2) {
      fail(Status::bad_input,
           "{}: unsupported: a template after one that leaves {} pieces, supported: one or two", place,
           texts.size());
    }
    apply(texts.size() == 1 ? single : pair, texts);
  };
}

}  // namespace

EdgeSpace edge_space(std::string_view token) {
  EdgeSpace space;
  for (std::size_t i = 0; i < token.size() && is_space(unicode::next(token, i));) ++space.leading;
  for (std::size_t i = token.size(); i > 0 && is_space(unicode::previous(token, i));) ++space.trailing;
  return space;
}

PostProcessor make_post_processor(const PartConfig& config, const Vocabulary& vocabulary) {
  constexpr PartRow<PostProcessor, const Vocabulary&> kPostProcessors[] = {
      {"Sequence", make_sequence},    {"TemplateProcessing", make_template},
      {"BertProcessing", make_bert},  {"RobertaProcessing", make_roberta},
      {"ByteLevel", make_byte_level},
  };
  return find_part(config, kPostProcessors).make(config, vocabulary);
}

}  // namespace attnctl

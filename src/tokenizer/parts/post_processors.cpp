#include <fmt/format.h>

#include "base/text.hpp"
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/regex/regex.hpp"

namespace attnctl::tokenizer {
namespace {

bool is_space(char32_t c) {
  if (c > U' ' && c < 0x7F) return false;  // visible ASCII characters, tested first for speed
  return c == kByteCharacters[U' '] || unicode::is(c, unicode::white_space);
}

/// Shortens the offset range of each token so that it does not contain the white space at the ends of the
/// token. `prefix_space` is the option add_prefix_space.
void trim_offsets(TokenizedText& text, bool prefix_space, const Vocabulary& vocabulary) {
  auto found = text.found.cbegin();
  Encoding& encoding = text.encoding;
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const bool was_found = found != text.found.cend() && found->token == i;
    EdgeSpace space = was_found ? found++->space
                                : edge_space(vocabulary.token(encoding.ids[i]).value_or(std::string_view()));
    auto& [begin, end] = encoding.offsets[i];
    // With add_prefix_space, a single space at the beginning of the first token, or of a token whose range
    // begins at 0, counts as added by the tokenizer, and the range is not shortened. If there are several
    // spaces, all of them are removed from the range, as in Hugging Face tokenizers.
    if (prefix_space && space.leading == 1 && (i == 0 || begin == 0)) space.leading = 0;
    begin = std::min(begin + space.leading, end);
    if (end >= space.trailing) end = std::max(end - space.trailing, begin);
  }
}

/// Inserts a special token before the token with the index `at`.
void insert(TokenizedText& text, std::size_t at, std::int64_t id, std::int64_t type_id,
            std::uint8_t sequence) {
  Encoding& encoding = text.encoding;
  Encoding::for_each_list([&](auto list) {
    (encoding.*list).emplace((encoding.*list).begin() + static_cast<std::ptrdiff_t>(at));
  });
  encoding.ids[at] = id;
  encoding.type_ids[at] = type_id;
  encoding.special[at] = 1;
  encoding.sequence[at] = sequence;
  for (TokenizedText::VerbatimToken& each : text.found) each.token += each.token >= at ? 1 : 0;
}

std::int64_t read_id(const PartConfig& config) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint32_t>::max();
  const PartConfig::Json& value = config.node();
  if (!value.is_number_integer() || value < 0 || value > kLargest) {
    config.refuse("", fmt::format("expected an id from 0 to {}, found {}", kLargest,
                                  value.is_number() ? value.dump() : value.type_name()));
  }
  return value.get<std::int64_t>();
}

PostProcessor make_sequence(const PartConfig& config, const Vocabulary& vocabulary) {
  return in_sequence(config, "processors",
                     [&](const PartConfig& part) { return make_post_processor(part, vocabulary); });
}

/// Returns a post-processor that sets Encoding::sequence and, if trim_offsets is true, trims the offsets.
PostProcessor make_byte_level(const PartConfig& config, const Vocabulary& vocabulary) {
  return [trim = config.boolean("trim_offsets"), prefix_space = config.boolean("add_prefix_space"),
          &vocabulary](std::vector<TokenizedText>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (trim) trim_offsets(texts[i], prefix_space, vocabulary);
      std::ranges::fill(texts[i].encoding.sequence, i == 0 ? std::uint8_t{0} : std::uint8_t{1});
    }
  };
}

std::int64_t read_end(const PartConfig& config, std::string_view key) {
  const PartConfig pair = config.at(key);
  if (!pair.node().is_array() || pair.node().size() != 2 || !pair.node()[0].is_string()) {
    pair.refuse("", "expected a token and its id, such as [\"[SEP]\", 102]");
  }
  return read_id(pair.elements()[1]);
}

/// Returns a post-processor that makes [CLS] A [SEP] from one text, and [CLS] A [SEP] B [SEP] from a pair.
PostProcessor make_bert(const PartConfig& config, const Vocabulary& /*vocabulary*/) {
  // Hugging Face tokenizers distinguish BertProcessing and RobertaProcessing by their fields, not by "type".
  if (config.has("trim_offsets") && config.has("add_prefix_space")) {
    config.refuse("trim_offsets", "unsupported in BertProcessing; only RobertaProcessing has this option");
  }
  return [cls = read_end(config, "cls"), sep = read_end(config, "sep")](std::vector<TokenizedText>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::uint8_t sequence = i == 0 ? 0 : 1;
      if (i == 0) insert(texts[i], 0, cls, 0, 0);
      insert(texts[i], texts[i].encoding.size(), sep, sequence, sequence);
    }
  };
}

/// Returns a post-processor that makes <s> A </s> from one text, and <s> A </s> </s> B </s> from a pair. All
/// token types are 0. Trims the offsets first if trim_offsets is true.
PostProcessor make_roberta(const PartConfig& config, const Vocabulary& vocabulary) {
  return [prefix_space = config.boolean("add_prefix_space"), trim = config.boolean("trim_offsets"),
          cls = read_end(config, "cls"), sep = read_end(config, "sep"),
          &vocabulary](std::vector<TokenizedText>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      TokenizedText& text = texts[i];
      const std::uint8_t sequence = i == 0 ? 0 : 1;
      if (trim) trim_offsets(text, prefix_space, vocabulary);
      std::ranges::fill(text.encoding.type_ids, 0);
      insert(text, 0, i == 0 ? cls : sep, 0, sequence);
      insert(text, text.encoding.size(), sep, 0, sequence);
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
};
using Template = std::vector<TemplatePart>;

void apply(const Template& parts, std::vector<TokenizedText>& texts) {
  std::vector<TokenizedText> made;
  made.reserve(parts.size());
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    if (part->is_text) {
      TokenizedText& text = texts[part->sequence];
      const bool is_used_again = std::any_of(part + 1, parts.end(), [&](const TemplatePart& later) {
        return later.is_text && later.sequence == part->sequence;
      });
      made.push_back(is_used_again ? text : std::move(text));
      std::ranges::fill(made.back().encoding.type_ids, part->type_id);
      std::ranges::fill(made.back().encoding.sequence, part->sequence);
    } else {
      TokenizedText& special = made.emplace_back();
      for (const std::int64_t id : part->ids) {
        insert(special, special.encoding.size(), id, part->type_id, part->sequence);
      }
    }
  }
  texts.swap(made);
}

/// Reads a template element: a text {"Sequence": {"id": "A", "type_id": 0}}, or a special token
/// {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, whose "id" must be a key of `special_tokens`.
TemplatePart read_template_part(const PartConfig& element, bool pair, const PartConfig& special_tokens) {
  constexpr std::string_view kKinds[] = {"Sequence", "SpecialToken"};
  constexpr std::string_view kTexts[] = {"A", "B"};
  if (element.node().size() != 1)
    element.refuse("", "expected an object with either Sequence or SpecialToken");
  const std::string kind = element.node().begin().key();
  if (std::ranges::find(kKinds, kind) == std::end(kKinds)) element.unsupported("", kind, kKinds);
  const PartConfig config = element.object(kind);
  TemplatePart part;
  part.is_text = kind == "Sequence";
  part.type_id = read_id(config.at("type_id"));
  if (part.is_text) {
    part.sequence = static_cast<std::uint8_t>(config.choice("id", kTexts));
    if (part.sequence == 1 && !pair)
      config.refuse("id", "got \"B\", the second text, in the template of a single text");
    return part;
  }
  const std::string name = config.string("id");
  if (!special_tokens.has(name)) config.refuse("id", in_quotes(name) + " is not among the special_tokens");
  for (const PartConfig& id : special_tokens.object(name).at("ids").elements()) {
    part.ids.push_back(read_id(id));
  }
  return part;
}

Template read_template(const PartConfig& config, std::string_view key, const PartConfig& special_tokens) {
  constexpr std::size_t kMostParts = 1000;  // limited, because each element may copy the whole text
  const std::vector<PartConfig> elements = config.objects(key);
  if (elements.size() > kMostParts) {
    config.refuse(key, fmt::format("expected at most {} elements, found {}", kMostParts, elements.size()));
  }
  Template parts;
  for (const PartConfig& element : elements) {
    parts.push_back(read_template_part(element, key == "pair", special_tokens));
  }
  const auto first = std::ranges::find(parts, true, &TemplatePart::is_text);
  std::uint8_t sequence = first != parts.end() ? first->sequence : std::uint8_t{0};
  for (TemplatePart& part : parts) {
    if (part.is_text) sequence = part.sequence;
    part.sequence = sequence;
  }
  return parts;
}

/// Returns a post-processor that adds special tokens with the template "single" for one text, "pair" for two.
PostProcessor make_template(const PartConfig& config, const Vocabulary& /*vocabulary*/) {
  const PartConfig special_tokens = config.object("special_tokens");
  return [place = config.place(), single = read_template(config, "single", special_tokens),
          pair = read_template(config, "pair", special_tokens)](std::vector<TokenizedText>& texts) {
    if (texts.empty() || texts.size() > 2) {
      refuse(place,
             "unsupported: the post-processor before this template makes {} parts; a template needs one or "
             "two",
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

void check_decoder(const PartConfig& config) {
  constexpr auto kNoOptions = [](const PartConfig&) {};
  constexpr PartRow<void> kDecoders[] = {
      {"Sequence",
       [](const PartConfig& part) { std::ranges::for_each(part.objects("decoders"), check_decoder); }},
      {"ByteLevel", kNoOptions},
      {"WordPiece", [](const PartConfig& part) { (void)part.string("prefix"); }},
      {"Metaspace", [](const PartConfig& part) { (void)read_character(part, "replacement"); }},
      {"BPEDecoder", [](const PartConfig& part) { (void)part.string("suffix"); }},
      {"ByteFallback", kNoOptions},
      {"Fuse", kNoOptions},
      {"Strip",
       [](const PartConfig& part) {
         (void)read_character(part, "content");
         for (const char* const key : {"start", "stop"}) (void)part.integer(key);
       }},
      {"Replace",
       [](const PartConfig& part) {
         (void)read_pattern(part);
         (void)part.string("content");
       }},
  };
  find_part(config, kDecoders).make(config);
}

}  // namespace attnctl::tokenizer

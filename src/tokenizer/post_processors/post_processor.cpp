#include "tokenizer/post_processors/post_processor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tokenizer/pre_tokenizers/byte_level.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

bool is_space(char32_t c) {
  if (c > U' ' && c < 0x7F) return false;  // fast path
  return c == byte_level::kSpace || unicode::is_white_space(c);
}

/// Removes the white space at the ends of tokens from their offsets.
void trim_offsets(TokenizedText& text, bool prefix_space, const Vocabulary& vocabulary) {
  auto found = text.found.cbegin();
  Encoding& encoding = text.encoding;
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const bool was_found = found != text.found.cend() && found->token == i;
    EdgeSpace space = was_found ? found++->space
                                : edge_space(vocabulary.token(encoding.ids[i]).value_or(std::string_view()));
    auto& [begin, end] = encoding.offsets[i];
    // A single space before the first token is the added prefix; the reference trims more than one.
    if (prefix_space && space.leading == 1 && (i == 0 || begin == 0)) space.leading = 0;
    begin = std::min(begin + space.leading, end);
    if (end >= space.trailing) end = std::max(end - space.trailing, begin);
  }
}

template <typename T>
void insert_front(std::vector<T>& all, T value) {
  all.insert(all.begin(), std::move(value));
}

void push_front(TokenizedText& text, const SpecialToken& token) {
  Encoding& encoding = text.encoding;
  insert_front(encoding.ids, token.id);
  insert_front(encoding.type_ids, token.type_id);
  insert_front(encoding.offsets, TextRange{});
  insert_front(encoding.words, std::optional<std::uint32_t>());
  insert_front(encoding.special, std::uint8_t{1});
  insert_front(encoding.sequence, token.sequence);
  for (TokenizedText::Found& each : text.found) ++each.token;
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

/// Adds no tokens.
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

/// Reads the id of ["[SEP]", 102].
std::int64_t read_end(const PartConfig& config, std::string_view key) {
  const PartConfig::Json& pair = config.at(key).node();
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) {
    config.refuse(key, "expected a token and its id, as [\"[SEP]\", 102]");
  }
  return read_id(config, key, pair[1]);
}

/// [CLS] A [SEP] B [SEP].
PostProcessor make_bert(const PartConfig& config, const Vocabulary& /*vocabulary*/) {
  // The reference distinguishes Bert and Roberta by their fields, not by their types.
  if (config.has("trim_offsets") && config.has("add_prefix_space")) {
    config.refuse("trim_offsets", "unsupported in BertProcessing: it is one of RobertaProcessing");
  }
  return [cls = read_end(config, "cls"), sep = read_end(config, "sep")](std::vector<TokenizedText>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::uint8_t sequence = i == 0 ? 0 : 1;
      if (i == 0) push_front(texts[i], {cls, 0, 0});
      push_back(texts[i], {sep, sequence, sequence});
    }
  };
}

/// <s> A </s> </s> B </s>. All types are 0.
PostProcessor make_roberta(const PartConfig& config, const Vocabulary& vocabulary) {
  return [prefix_space = config.boolean("add_prefix_space"), trim = config.boolean("trim_offsets"),
          cls = read_end(config, "cls"), sep = read_end(config, "sep"),
          &vocabulary](std::vector<TokenizedText>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      TokenizedText& text = texts[i];
      const std::uint8_t sequence = i == 0 ? 0 : 1;
      if (trim) trim_offsets(text, prefix_space, vocabulary);
      std::fill(text.encoding.type_ids.begin(), text.encoding.type_ids.end(), 0);
      push_front(text, {i == 0 ? cls : sep, 0, sequence});
      push_back(text, {sep, 0, sequence});
    }
  };
}

}  // namespace

EdgeSpace edge_space(std::string_view token) {
  EdgeSpace space;
  for (std::size_t i = 0; i < token.size() && is_space(unicode::next(token, i));) ++space.leading;
  for (std::size_t i = token.size(); i > 0 && is_space(unicode::previous(token, i));) ++space.trailing;
  return space;
}

void push_back(TokenizedText& text, const SpecialToken& token) {
  Encoding& encoding = text.encoding;
  encoding.ids.push_back(token.id);
  encoding.type_ids.push_back(token.type_id);
  encoding.offsets.push_back({});
  encoding.words.emplace_back();
  encoding.special.push_back(1);
  encoding.sequence.push_back(token.sequence);
}

std::int64_t read_id(const PartConfig& config, std::string_view key, const PartConfig::Json& value) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint32_t>::max();
  // Parts made by this program have signed numbers.
  const bool natural =
      value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  if (!natural || value.get<std::uint64_t>() > kLargest) {
    config.refuse(key, fmt::format("expected ids from 0 to {}, found {}", kLargest,
                                   value.is_number() ? value.dump() : value.type_name()));
  }
  return value.get<std::int64_t>();
}

PostProcessor make_post_processor(const PartConfig& config, const Vocabulary& vocabulary) {
  struct Row {
    std::string_view type;
    PostProcessor (*make)(const PartConfig& config, const Vocabulary& vocabulary);
  };
  constexpr Row kPostProcessors[] = {
      {"Sequence", make_sequence},    {"TemplateProcessing", make_template},
      {"BertProcessing", make_bert},  {"RobertaProcessing", make_roberta},
      {"ByteLevel", make_byte_level},
  };
  return find_part(config, kPostProcessors).make(config, vocabulary);
}

}  // namespace attnctl

#include "tokenizer/post_processors/post_processor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tokenizer/post_processors/post_processor_parts.hpp"
#include "tokenizer/pre_tokenizers/byte_level.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

class SequenceProcessor final : public PostProcessor {
 public:
  explicit SequenceProcessor(std::vector<PostProcessorPtr> parts) : parts_(std::move(parts)) {}

  void process(std::vector<TokenizedText>& texts) const override {
    for (const PostProcessorPtr& part : parts_) part->process(texts);
  }
  [[nodiscard]] std::size_t added(bool pair) const override {
    std::size_t sum = 0;
    for (const PostProcessorPtr& part : parts_) sum += part->added(pair);
    return sum;
  }

 private:
  std::vector<PostProcessorPtr> parts_;
};

/// Adds nothing.
class ByteLevelProcessor final : public PostProcessor {
 public:
  ByteLevelProcessor(bool trim, bool prefix_space, const TokenStrings& strings)
      : trim_(trim), prefix_space_(prefix_space), strings_(strings) {}

  void process(std::vector<TokenizedText>& texts) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (trim_) trim_offsets(texts[i], prefix_space_, strings_);
      auto& sequence = texts[i].encoding.sequence;
      std::fill(sequence.begin(), sequence.end(), static_cast<std::uint8_t>(std::min<std::size_t>(i, 1)));
    }
  }
  [[nodiscard]] std::size_t added(bool /*pair*/) const override { return 0; }

 private:
  bool trim_;
  bool prefix_space_;
  const TokenStrings& strings_;
};

PostProcessorPtr make_byte_level_processor(const PartConfig& config, const TokenStrings& strings) {
  return std::make_unique<const ByteLevelProcessor>(config.boolean("trim_offsets"),
                                                    config.boolean("add_prefix_space"), strings);
}

PostProcessorPtr make_sequence(const PartConfig& config, const TokenStrings& strings) {
  std::vector<PostProcessorPtr> parts;
  for (const PartConfig& part : config.objects("processors")) {
    parts.push_back(make_post_processor(part, strings));
  }
  return std::make_unique<const SequenceProcessor>(std::move(parts));
}

bool is_space(char32_t c) {
  if (c > U' ' && c < 0x7F) return false;  // most tokens
  return c == byte_level::kSpace || unicode::is_white_space(c);
}

template <typename T>
void insert_front(std::vector<T>& all, T value) {
  all.insert(all.begin(), std::move(value));
}

}  // namespace

EdgeSpace edge_space(std::string_view token) {
  EdgeSpace space;
  for (std::size_t i = 0; i < token.size() && is_space(unicode::next(token, i));) ++space.leading;
  for (std::size_t i = token.size(); i > 0 && is_space(unicode::previous(token, i));) ++space.trailing;
  return space;
}

void trim_offsets(TokenizedText& text, bool prefix_space, const TokenStrings& strings) {
  auto found = text.found.cbegin();
  Encoding& encoding = text.encoding;
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const bool was_found = found != text.found.cend() && found->token == i;
    EdgeSpace space = was_found ? found++->space : edge_space(strings.token(encoding.ids[i]));
    auto& [begin, end] = encoding.offsets[i];
    // More than one is in part of the text itself: then the reference takes out all.
    if (prefix_space && space.leading == 1 && (i == 0 || begin == 0)) space.leading = 0;
    begin = std::min(begin + space.leading, end);
    if (end >= space.trailing) end = std::max(end - space.trailing, begin);
  }
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

std::int64_t read_id(const PartConfig& config, std::string_view key, const PartConfig::Json& value) {
  constexpr std::uint64_t largest = std::numeric_limits<std::uint32_t>::max();
  // What this program put together itself holds signed numbers.
  const bool natural =
      value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  if (!natural || value.get<std::uint64_t>() > largest) {
    config.refuse(key, fmt::format("expected ids from 0 to {}, found {}", largest,
                                   value.is_number() ? value.dump() : value.type_name()));
  }
  return value.get<std::int64_t>();
}

PostProcessorPtr make_post_processor(const PartConfig& config, const TokenStrings& strings) {
  struct Row {
    std::string_view type;
    PostProcessorPtr (*make)(const PartConfig& config, const TokenStrings& strings);
  };
  constexpr Row rows[] = {
      {"Sequence", make_sequence},
      {"TemplateProcessing", make_template},
      {"BertProcessing", make_bert_processing},
      {"RobertaProcessing", make_roberta_processing},
      {"ByteLevel", make_byte_level_processor},
  };
  const std::string type = config.string("type");
  std::vector<std::string_view> supported;
  for (const Row& row : rows) {
    if (row.type == type) return row.make(config, strings);
    supported.push_back(row.type);
  }
  config.unsupported("type", type, supported);
}

}  // namespace attnctl

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tokenizer/encoding.hpp"
#include "tokenizer/post_processors/post_processor.hpp"

// What makes each post-processor, and what they share; the table of them is in post_processor.cpp.
namespace attnctl {

[[nodiscard]] PostProcessorPtr make_template(const PartConfig& config, const TokenStrings& strings);
[[nodiscard]] PostProcessorPtr make_bert_processing(const PartConfig& config, const TokenStrings& strings);
[[nodiscard]] PostProcessorPtr make_roberta_processing(const PartConfig& config, const TokenStrings& strings);

/// Takes the white space at the ends of tokens out of their offsets. `prefix_space`: the first token's is one
/// that was put there, and none of the text.
void trim_offsets(TokenizedText& text, bool prefix_space, const TokenStrings& strings);

/// A special token as post-processors add it.
struct SpecialToken {
  std::int64_t id = 0;
  std::int64_t type_id = 0;
  std::uint8_t sequence = 0;
};
void push_back(TokenizedText& text, const SpecialToken& token);
void push_front(TokenizedText& text, const SpecialToken& token);

/// An id of tokenizer.json: 0 to 2^32 - 1. `value` is what `config` has under `key`.
[[nodiscard]] std::int64_t read_id(const PartConfig& config, std::string_view key,
                                   const PartConfig::Json& value);

}  // namespace attnctl

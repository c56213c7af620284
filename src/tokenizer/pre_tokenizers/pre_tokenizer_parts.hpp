#pragma once

#include <string>
#include <string_view>

#include "tokenizer/pre_tokenizers/pre_tokenizer.hpp"

// What makes each pre-tokenizer; the table of them is in pre_tokenizer.cpp.
namespace attnctl {

[[nodiscard]] PreTokenizerPtr make_bert_pre_tokenizer(const PartConfig& config);
[[nodiscard]] PreTokenizerPtr make_whitespace(const PartConfig& config);
[[nodiscard]] PreTokenizerPtr make_whitespace_split(const PartConfig& config);
[[nodiscard]] PreTokenizerPtr make_fixed_length(const PartConfig& config);
[[nodiscard]] PreTokenizerPtr make_byte_level(const PartConfig& config);
[[nodiscard]] PreTokenizerPtr make_metaspace(const PartConfig& config);
[[nodiscard]] PreTokenizerPtr make_split(const PartConfig& config);
[[nodiscard]] PreTokenizerPtr make_punctuation(const PartConfig& config);
[[nodiscard]] PreTokenizerPtr make_digits(const PartConfig& config);
[[nodiscard]] PreTokenizerPtr make_character_delimiter(const PartConfig& config);
[[nodiscard]] PreTokenizerPtr make_unicode_scripts(const PartConfig& config);

/// The string under a key, which must be one code point.
[[nodiscard]] std::string read_character(const PartConfig& config, std::string_view key);

}  // namespace attnctl

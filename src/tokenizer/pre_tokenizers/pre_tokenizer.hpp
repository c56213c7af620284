#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tokenizer/part_config.hpp"
#include "tokenizer/piece_text.hpp"

namespace attnctl {

/// Returns the pre-tokenizer that a part of tokenizer.json describes. Throws Error(bad_input).
[[nodiscard]] TextStep make_pre_tokenizer(const PartConfig& config);

[[nodiscard]] TextStep make_split(const PartConfig& config);
[[nodiscard]] TextStep make_punctuation(const PartConfig& config);
[[nodiscard]] TextStep make_digits(const PartConfig& config);
[[nodiscard]] TextStep make_character_delimiter(const PartConfig& config);
[[nodiscard]] TextStep make_metaspace(const PartConfig& config);

/// Returns the string under a key, which must be one code point. Throws Error(bad_input).
[[nodiscard]] std::string read_character(const PartConfig& config, std::string_view key);

}  // namespace attnctl

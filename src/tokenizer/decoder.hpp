#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tokenizer/part_config.hpp"

namespace attnctl {

/// Returns the text of a token in the middle of a text, both as UTF-8. Bytes that are not a whole character
/// become <0xE2>.
using Decoder = std::function<std::string(std::string_view)>;

/// Returns the decoder that a part of tokenizer.json describes. Throws Error(bad_input).
[[nodiscard]] Decoder make_decoder(const PartConfig& config);

}  // namespace attnctl

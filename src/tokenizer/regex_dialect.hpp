#pragma once

#include <string>
#include <string_view>

#include "tokenizer/part_config.hpp"

namespace attnctl {

/// A pattern of Oniguruma's dialect as one of ICU with the same matches. Every class of characters is written
/// out, so that no flag and no Unicode version of ICU matters. Throws Error(bad_input) at `where` for what is
/// damaged or has no exact equal.
[[nodiscard]] std::u16string icu_pattern(const PartConfig& where, std::string_view pattern);

}  // namespace attnctl

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <unicode/uniset.h>

#include "tokenizer/files/part_config.hpp"

namespace attnctl {

/// A whole pattern that is one set and its repeat (`\s+`, `[0-9]`, ` {2,}`): runs of at least `least` and at
/// most `most` characters of the set.
struct SetRun {
  icu::UnicodeSet set;
  std::uint32_t least = 1;
  std::uint32_t most = 1;
};

struct TranslatedPattern {
  std::u16string icu;
  std::optional<SetRun> run;
};

/// A pattern of Oniguruma's dialect as one of ICU with the same matches. Every class of characters is written
/// out, so that no flag and no Unicode version of ICU matters. Throws Error(bad_input) at `where` for what is
/// damaged or has no exact equal.
[[nodiscard]] TranslatedPattern translate_pattern(const PartConfig& where, std::string_view pattern);

}  // namespace attnctl

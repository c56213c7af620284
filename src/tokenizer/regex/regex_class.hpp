#pragma once

#include <unicode/uniset.h>

#include "tokenizer/regex/regex_scanner.hpp"

namespace attnctl {

/// The set that a class of characters says, whose [ is read already. Throws Error(bad_input).
[[nodiscard]] icu::UnicodeSet read_class(RegexScanner& scanner, bool ignore_case);

}  // namespace attnctl

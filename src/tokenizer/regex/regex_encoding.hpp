#pragma once

#define ONIG_ESCAPE_UCHAR_COLLISION 1  // ICU has a UChar as well
#include <oniguruma.h>

namespace attnctl {

/// Returns Oniguruma's UTF-8 with the character properties of Unicode 16.
///
/// The reference tokenizers use Oniguruma 6.9.10, which has Unicode 16; the library that is installed may be
/// older (6.9.8 has Unicode 14). Sets come from ICU and unicode::later_ranges(). Case folding stays that of
/// the library, which lacks (?i) for 27 pairs of rare letters.
[[nodiscard]] OnigEncoding regex_encoding();

}  // namespace attnctl

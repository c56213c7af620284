#pragma once

#include <cstddef>
#include <string_view>

namespace attnctl::unicode {

/// The end of the extended grapheme cluster that begins at byte `begin` < `end` of well-formed UTF-8 (UAX #29
/// without GB9c, the conjuncts of Indic scripts, and without GB12 and GB13, the pairs of regional
/// indicators).
std::size_t cluster_end(std::string_view text, std::size_t begin, std::size_t end);

}  // namespace attnctl::unicode

#pragma once

#include <cstddef>
#include <string_view>

namespace attnctl::unicode {

/// Returns the end of the extended grapheme cluster that starts at byte `begin` < `end` of well-formed UTF-8:
/// UAX #29 of Unicode 17 without GB12 and GB13 (pairs of regional indicators).
std::size_t cluster_end(std::string_view text, std::size_t begin, std::size_t end);

}  // namespace attnctl::unicode

#pragma once

#include <cstddef>
#include <string>

namespace attnctl {

/// The line of a progress bar, at most `width` columns of ASCII label: "layers  [######----]  6/10  0.5/s
/// 0:08 left". The time left is told from `seconds` so far once something is done.
[[nodiscard]] std::string progress_line(const std::string& label, std::size_t done, std::size_t total,
                                        double seconds, std::size_t width);

}  // namespace attnctl

#pragma once

#include <string>

#include "report/text/text.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Appends a chart of a table in characters: lines on a grid, with a different mark for each column of the
/// table, or horizontal bars. The chart is as wide as options.width, up to 80 columns. Throws
/// std::invalid_argument if a column is missing.
void append_text_chart(std::string& text, const Table& table, const Chart& chart,
                       const TextOptions& options = {});

}  // namespace attnctl

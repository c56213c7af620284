#pragma once

#include <string>

#include "report/text/text.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Appends a chart of a table drawn in characters: lines as marks on a grid, a mark a column of the table;
/// bars as horizontal ones. As wide as options.width allows, up to 80 columns. Throws std::invalid_argument
/// where a column is missing.
void append_text_chart(std::string& text, const Table& table, const Chart& chart,
                       const TextOptions& options = {});

}  // namespace attnctl

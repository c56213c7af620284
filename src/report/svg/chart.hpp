#pragma once

#include <span>
#include <string>

#include "base/files/output_file.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Writes columns of a table as line and bar charts, two beside each other, as a standalone SVG without
/// scripts or outside references. Rows are drawn in their order; points that are undefined, not finite or (on
/// a logarithmic axis) not positive are left out. Throws std::invalid_argument where a column is missing, and
/// Error(limit) over 100,000 points.
void write_svg(OutputFile& out, const std::string& title, const Table& table, std::span<const Chart> charts);

}  // namespace attnctl

#pragma once

#include <span>
#include <string>

#include "base/files/output_file.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Writes columns of a table as line and bar charts, two per row, as a standalone SVG without scripts or
/// external references. Rows are drawn in their order. Omits points that are undefined, not finite, or not
/// positive on a logarithmic axis. Throws std::invalid_argument if a column is missing, and Error(limit) for
/// more than 100,000 points.
void write_svg(OutputFile& out, const std::string& title, const Table& table, std::span<const Chart> charts);

}  // namespace attnctl

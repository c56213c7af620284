#pragma once

#include <cstddef>

#include "base/files/output_file.hpp"
#include "results/results.hpp"

namespace attnctl {

/// The largest number of cells on one page.
inline constexpr std::size_t kMaxSvgCells = 250000;

/// Writes a page as a standalone SVG without scripts or external references. Cells that are large enough show
/// their value with two decimals, in white on the dark half of the scale. If there are at most a few thousand
/// cells, each has a tooltip with its labels and value. Long labels are turned and shortened; if there are
/// many labels, only every step-th is drawn. Throws Error(limit) for more than kMaxSvgCells cells, and
/// std::invalid_argument if labels and shape do not match.
void write_svg(OutputFile& out, const HeatmapPage& page);

/// Writes a page of line and bar charts, two per row, as a standalone SVG without scripts or
/// external references. Rows are drawn in their order. Omits points that are undefined, not finite, or not
/// positive on a logarithmic axis. Throws std::invalid_argument if a column is missing, and Error(limit) for
/// more than 100,000 points.
void write_svg(OutputFile& out, const ChartPage& page);

}  // namespace attnctl

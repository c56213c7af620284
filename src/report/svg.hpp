#pragma once

#include <cstddef>

#include "base/files/output_file.hpp"
#include "results/results.hpp"

namespace attnctl::report {

/// The largest number of heatmap cells on one page.
inline constexpr std::size_t kMaxSvgCells = 250000;

/// Writes a page of heatmaps as a standalone SVG without scripts or external references. Cells that are large
/// enough show their value with two decimals, or their text of HeatmapPage::cell_texts; the text is white on
/// dark cells. If there are at most 5000 cells, each has a tooltip with its labels and value. Long labels are
/// turned and shortened. If there are too many labels, only every second, fifth, tenth, ... label is drawn.
/// Throws Error(limit) for more than kMaxSvgCells cells, and std::invalid_argument if the numbers of labels
/// and cells do not match.
void write_svg(OutputFile& out, const HeatmapPage& page);

/// Writes a page of line and bar charts, two charts per row of the page, as a standalone SVG without scripts
/// or external references. Table rows are drawn in their order. Points that are undefined, not finite, or not
/// positive on a logarithmic axis are omitted. Throws std::invalid_argument if a column is missing, and
/// Error(limit) for more than 100,000 points.
void write_svg(OutputFile& out, const ChartPage& page);

}  // namespace attnctl::report

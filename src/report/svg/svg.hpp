#pragma once

#include <cstddef>
#include <string>

#include "base/files/output_file.hpp"
#include "results/heatmap.hpp"

namespace attnctl {

/// The most cells that one page draws.
inline constexpr std::size_t most_svg_cells = 250000;

/// Writes a page as a standalone SVG without scripts or outside references. Where they are large enough cells
/// show their value with two decimals, in white ink from half of the scale's end on, and up to some thousands
/// of cells each tells its labels and value when pointed at. Long labels are turned and cut, many are thinned
/// out. Throws Error(limit) over most_svg_cells, and std::invalid_argument where labels and shape disagree.
void write_svg(OutputFile& out, const HeatmapPage& page);

}  // namespace attnctl

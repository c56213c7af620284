#include "report/svg/svg_layout.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "report/text/text_width.hpp"

namespace attnctl {
namespace {

constexpr double margin = 16;
constexpr std::size_t most_cells_with_values = 64;  // largest side of a heatmap that shows values
constexpr double least_size_with_values = 26;
constexpr std::size_t most_pointable = 5000;

std::size_t longest_side(const Heatmap& heatmap) {
  return std::max({heatmap.values.shape[0], heatmap.values.shape[1], std::size_t{1}});
}

std::size_t longest_side(const HeatmapPage& page) {
  std::size_t side = 1;
  for (const Heatmap& heatmap : page.heatmaps) side = std::max(side, longest_side(heatmap));
  return side;
}

/// Returns the side of a cell in pixels. A single matrix is about 560 pixels wide, or wider if its values
/// would not be readable otherwise. A grid is about 1600 pixels wide.
double cell_size(const HeatmapPage& page, std::size_t columns) {
  const auto side = static_cast<double>(longest_side(page));
  if (page.heatmaps.size() > 1) {
    return std::floor(std::clamp(1600 / (side * static_cast<double>(columns)), 1.0, 40.0));
  }
  if (side > static_cast<double>(most_cells_with_values))
    return std::floor(std::clamp(1200 / side, 1.0, 16.0));
  return std::floor(std::clamp(560 / side, 30.0, 72.0));
}

CellStyle cell_style(const HeatmapPage& page, std::size_t columns) {
  std::size_t cells = 0;
  for (const Heatmap& heatmap : page.heatmaps) cells += heatmap.values.size();
  const double size = cell_size(page, columns);
  return {size, longest_side(page) <= most_cells_with_values && size >= least_size_with_values,
          cells <= most_pointable};
}

/// Returns the smallest step of 1, 2, 5, 10, 20, ... at which labels of height `font` do not overlap.
std::size_t tick_step(double cell, double font) {
  std::size_t power = 1;
  while (true) {
    for (const std::size_t factor : {1U, 2U, 5U}) {
      if (static_cast<double>(factor * power) * cell >= font * 1.1) return factor * power;
    }
    power *= 10;
  }
}

double widest(const std::vector<std::string>& labels, std::size_t count, const Ticks& ticks) {
  double width = 0;
  for (std::size_t i = 0; i < count; i += ticks.step) {
    width = std::max(width, text_width(tick_label(labels, i), ticks.font));
  }
  return width;
}

/// Computes the ticks of one axis, shared by all heatmaps.
Ticks lay_out_ticks(const HeatmapPage& page, double cell, std::size_t columns, bool horizontal) {
  Ticks ticks;
  ticks.font = page.heatmaps.size() > 1 ? std::clamp(std::round(cell * 0.8), 7.0, 11.0) : 12;
  ticks.step = tick_step(cell, ticks.font);
  double width = 0;
  for (const Heatmap& heatmap : page.heatmaps) {
    width = std::max(width, widest(horizontal ? heatmap.x_labels : heatmap.y_labels,
                                   heatmap.values.shape[horizontal ? 1 : 0], ticks));
  }
  const double room = static_cast<double>(ticks.step) * cell;
  if (!horizontal || width + 6 <= room) {
    ticks.extent = horizontal ? ticks.font * 1.2 : width;
  } else if (room >= ticks.font * 1.8 && page.heatmaps.size() % columns == 0) {
    // Turned lines are room * sin 45 apart, and some fonts have characters higher than their size. Labels are
    // not turned by 45 degrees above the gap of an incomplete last row: they would overlap the neighbouring
    // panel.
    ticks.turn = -45;
    ticks.extent = (width + ticks.font) * std::sqrt(0.5);
  } else {
    ticks.turn = -90;
    ticks.extent = width;
  }
  ticks.extent += tick_length + 4;
  return ticks;
}

bool share_labels(const std::vector<Heatmap>& heatmaps) {
  return std::ranges::all_of(heatmaps, [&](const Heatmap& heatmap) {
    return heatmap.values.shape == heatmaps[0].values.shape && heatmap.x_labels == heatmaps[0].x_labels &&
           heatmap.y_labels == heatmaps[0].y_labels;
  });
}

/// Returns the positions of consecutive panels with these extents. Sets `end` to the end of the last one.
std::vector<double> line_up(const std::vector<double>& extents, double gap, double& end) {
  std::vector<double> places;
  double place = 0;
  for (const double extent : extents) {
    places.push_back(place);
    end = place + extent;
    place = end + gap;
  }
  return places;
}

/// Places the panels. A row of the grid is as high as its highest panel, a column as wide as its widest
/// panel.
void place_panels(PageLayout& layout, const HeatmapPage& page) {
  std::vector<double> widths(layout.columns);
  std::vector<double> heights(layout.rows);
  for (std::size_t i = 0; i < page.heatmaps.size(); ++i) {
    const Shape& shape = page.heatmaps[i].values.shape;
    double& height = heights[i / layout.columns];
    double& width = widths[i % layout.columns];
    height = std::max(height, static_cast<double>(shape[0]) * layout.cells.size);
    width = std::max(width, static_cast<double>(shape[1]) * layout.cells.size);
  }
  const double title = layout.grid ? panel_title_font + 8 : 0;
  const double gap_x = 18 + (layout.edge_labels ? 0 : layout.y_ticks.extent);
  const double gap_y = title + 12 + (layout.edge_labels ? 0 : layout.x_ticks.extent);
  layout.column_x = line_up(widths, gap_x, layout.plot_width);
  layout.row_y = line_up(heights, gap_y, layout.plot_height);
}

void place_page(PageLayout& layout, const HeatmapPage& page) {
  const Heatmap& first = page.heatmaps[0];
  const std::string& title = layout.grid ? page.title : first.title;
  const double title_half = text_width(title, title_font) / 2 + margin;
  const double panel_title = layout.grid ? panel_title_font + 8 : 0;
  const double axis = axis_font + 8;
  layout.left = margin + layout.y_ticks.extent + (first.y_axis.empty() ? 0 : axis);
  layout.left = std::max(layout.left, title_half - layout.plot_width / 2);
  // The turned label of the first column extends to the left of the panel.
  if (layout.x_ticks.turn == -45)
    layout.left = std::max(layout.left, layout.x_ticks.extent - layout.cells.size / 2 + 4);
  layout.top = margin + (title.empty() ? 0 : title_font + 14) + panel_title;
  const double content_height = std::max(layout.plot_height, 120.0);
  layout.bar_height = std::clamp(layout.plot_height, 120.0, 440.0);
  layout.bar_x = layout.left + layout.plot_width + 24;
  layout.bar_y = layout.top + (content_height - layout.bar_height) / 2;
  const double bar_text = text_width("-0.00", bar_font) + tick_length + 4;
  const double bar = bar_width + bar_text + (page.scale.label.empty() ? 0 : axis + 6);
  layout.width = std::max(layout.bar_x + bar + margin, layout.left + layout.plot_width / 2 + title_half);
  // A turned label of the last column ends below its column, so nothing extends beyond the right edge.
  const double below = layout.plot_height + layout.x_ticks.extent + (first.x_axis.empty() ? 0 : axis);
  layout.height = layout.top + std::max(content_height, below) + margin;
}

}  // namespace

std::string tick_label(const std::vector<std::string>& labels, std::size_t i) {
  return labels.empty() ? std::to_string(i) : shortened(escaped(labels[i]), longest_label);
}

double text_width(std::string_view text, double font) {
  return 0.58 * font * static_cast<double>(display_width(text));
}

PageLayout lay_out(const HeatmapPage& page) {
  PageLayout layout;
  const std::size_t count = page.heatmaps.size();
  layout.grid = count > 1;
  layout.columns = std::clamp<std::size_t>(page.columns, 1, count);
  layout.rows = (count + layout.columns - 1) / layout.columns;
  layout.edge_labels = layout.grid && share_labels(page.heatmaps);
  layout.cells = cell_style(page, layout.columns);
  layout.x_ticks = lay_out_ticks(page, layout.cells.size, layout.columns, true);
  layout.y_ticks = lay_out_ticks(page, layout.cells.size, layout.columns, false);
  place_panels(layout, page);
  place_page(layout, page);
  return layout;
}

}  // namespace attnctl

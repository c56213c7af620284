#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "report/drawing.hpp"
#include "report/svg_canvas.hpp"
#include "report/text.hpp"
#include "report/writers.hpp"

namespace attnctl::report {
namespace {

constexpr std::size_t kMaxCells = 250000;
constexpr double kBarWidth = 16;
constexpr double kBarFont = 12;

std::size_t cells_of(const HeatmapPage& page) {
  std::size_t cells = 0;
  for (const Heatmap& heatmap : page.heatmaps) cells += heatmap.values.size();
  return cells;
}

void check(const HeatmapPage& page, const std::string& name) {
  if (page.heatmaps.empty()) throw std::invalid_argument("a page without heatmaps");
  if (!(page.scale.low < page.scale.high)) throw std::invalid_argument("a scale without extent");
  for (const Heatmap& heatmap : page.heatmaps) {
    const Tensor& values = heatmap.values;
    const ColumnTree& tree = heatmap.tree;
    if (values.shape.size() != 2 || std::holds_alternative<std::span<const std::int64_t>>(values.values) ||
        (!heatmap.y_labels.empty() && heatmap.y_labels.size() != values.shape[0]) ||
        (!heatmap.x_labels.empty() && heatmap.x_labels.size() != values.shape[1])) {
      throw std::invalid_argument("a heatmap whose labels do not fit its matrix");
    }
    const std::size_t merges = tree.merges.size();
    bool fits = merges == 0 || merges < values.shape[1];
    fits &= tree.column_groups.empty() || tree.column_groups.size() == values.shape[1];
    for (std::size_t i = 0; i < merges; ++i)
      fits &= std::max(tree.merges[i].first, tree.merges[i].second) <= merges + i;
    for (const std::size_t group : tree.column_groups) fits &= group < tree.groups.size();
    if (!fits) throw std::invalid_argument("a tree that does not fit the columns of its heatmap");
  }
  if (const std::size_t cells = cells_of(page); cells > kMaxCells) {
    fail(Status::limit,
         "{}: the heatmaps have {} cells, and a picture can show at most {}; select fewer layers, heads or "
         "inputs, use another --format, or draw a number of each head, as with --plot entropy",
         name, cells, kMaxCells);
  }
  const std::vector<std::string>& texts = page.cell_texts;
  if (!texts.empty() && (page.heatmaps.size() != 1 || texts.size() != page.heatmaps[0].values.size()))
    throw std::invalid_argument("texts that do not fit the cells of a heatmap");
}

/// The tick labels of one axis. Every `step`-th label is drawn, turned if necessary, so that labels do not
/// overlap.
struct Ticks {
  std::size_t step = 1;
  double font = 12;
  double turn = 0;    // degrees: 0, -45 or -90
  double extent = 0;  // space for the labels perpendicular to the axis, in pixels
};

/// The positions and sizes of all elements of a page, in pixels.
struct PageLayout {
  double cell = 0;         // width and height of a cell
  bool values = false;     // the value is drawn in each cell
  bool pointable = false;  // each cell is an SVG element with a tooltip: its labels and value
  Ticks x_ticks, y_ticks;
  bool grid = false;
  bool edge_labels = false;           // only heatmaps at the edge of the grid have tick labels
  ChartAxis tree_axis;                // distances of the trees
  double tree_labels = 0;             // width of the labels of this axis
  double strip = 4;                   // space between each heatmap and its tree
  double above = 0;                   // space for the tree of each heatmap, with `strip`; 0 without trees
  std::size_t columns = 1, rows = 1;  // of the grid
  std::vector<double> column_x;       // position of each grid column, from `left`
  std::vector<double> row_y;
  double left = 0, top = 0;                // position of the cells of the first heatmap
  double plot_width = 0, plot_height = 0;  // size of all panels together
  double bar_x = 0, bar_y = 0;             // position of the colour bar
  double bar_height = 0;
  double bar_text = 0;  // width of its labels
  std::vector<std::string> subtitle;
  std::vector<std::vector<std::string>> panel_titles;  // lines of the title of each heatmap of a grid
  double title_space = 0;                              // for these lines
  double width = 0, height = 0;                        // size of the whole page
};

std::string label_or_index(const std::vector<std::string>& labels, std::size_t i) {
  return labels.empty() ? std::to_string(i) : labels[i];
}

std::string label_text(const std::vector<std::string>& labels, std::size_t i) {
  return shortened(escaped(label_or_index(labels, i)), kMaxLabel);
}

constexpr double kMargin = 16;
constexpr double kPanelTitleLine = kPanelTitleFont + 2;  // height of a line of a title of a grid
constexpr std::size_t kMaxCellsWithLabels = 64;          // in a row or column of a heatmap
constexpr double kMinSizeWithValues = 26;
constexpr std::size_t kMaxPointable = 5000;
constexpr double kTreeHeight = 84;
constexpr double kTreeFont = 9;
constexpr double kStripHeight = 8;  // of the colours of groups

bool has_trees(const HeatmapPage& page) {
  return std::ranges::any_of(page.heatmaps, [](const auto& each) { return !each.tree.merges.empty(); });
}

/// Returns the largest number of rows and columns of heatmaps whose values are drawn. More values could not
/// be read on a page of paper.
std::size_t most_with_values(const HeatmapPage& page) {
  return page.legend.empty() ? 32 : kMaxCellsWithLabels;
}

std::size_t longest_side(const HeatmapPage& page) {
  std::size_t side = 1;
  for (const Heatmap& heatmap : page.heatmaps)
    side = std::max({side, heatmap.values.shape[0], heatmap.values.shape[1]});
  return side;
}

/// Returns the width and height of a cell in pixels. With the default font size (zoom 1), the longest side of
/// a single heatmap is about 560 pixels, or longer if its values would be too small to read, and at most
/// about 1200 if values are not drawn. The heatmaps of a grid are together at most about 1600 pixels wide and
/// 2400 high. Limits of the cell size have priority: each cell is large enough for a label on a page with
/// trees, and in a grid of up to six rows and columns, whose heatmaps have at most 64 rows and columns. A
/// larger font makes the cells smaller, as long as the titles of the heatmaps have space.
double cell_size(const HeatmapPage& page, std::size_t columns, double zoom) {
  const auto side = static_cast<double>(longest_side(page));
  const double low = has_trees(page) ? 8 : 1;
  double below_title = 0;  // size of a cell with which no heatmap is narrower than its title
  const auto scaled = [&](double size) { return std::max(size / zoom, std::min(size, below_title)); };
  const auto within = [&](double wanted, double least, double most) {
    return std::floor(std::clamp(scaled(wanted), least, std::max(least, scaled(most))));
  };
  if (page.heatmaps.size() > 1) {
    for (const Heatmap& heatmap : page.heatmaps)
      below_title = std::max(below_title, std::ceil(text_width(heatmap.title, kPanelTitleFont) /
                                                    static_cast<double>(heatmap.values.shape[1])));
    const std::size_t rows = (page.heatmaps.size() + columns - 1) / columns;
    const double least =
        columns <= 6 && rows <= 6 && side <= static_cast<double>(kMaxCellsWithLabels) ? 10 : low;
    return within(std::min(1600 / static_cast<double>(columns), 2400 / static_cast<double>(rows)) / side,
                  least, 40);
  }
  if (side > static_cast<double>(most_with_values(page))) return within(1200 / side, low, 16);
  return within(560 / side, 30, 72);
}

/// Returns the number of columns of a grid: page.columns if it is set; otherwise at most 4 if the heatmaps
/// are large, so that the page does not become too wide, else 4 to 6 (or all of up to 6), with the fullest
/// last row.
std::size_t grid_columns(const HeatmapPage& page) {
  const std::size_t count = page.heatmaps.size();
  if (page.columns > 0) return std::min(page.columns, count);
  if (longest_side(page) > 24) return std::min<std::size_t>(count, 4);
  if (count <= 6) return count;
  const auto gap = [&](std::size_t columns) { return (columns - count % columns) % columns; };
  return std::min({6UL, 5UL, 4UL}, [&](std::size_t a, std::size_t b) { return gap(a) < gap(b); });
}

/// Computes the layout of the tick labels of one axis, which is the same for all heatmaps of a page.
Ticks lay_out_ticks(const HeatmapPage& page, const PageLayout& layout, bool horizontal) {
  const double cell = layout.cell;
  Ticks ticks;
  ticks.font = layout.grid || has_trees(page) ? std::clamp(std::round(cell * 0.8), 7.0, 11.0) : 12;
  ticks.step = static_cast<std::size_t>(round_step(std::max(1.0, ticks.font * 1.1 / cell)));
  double width = 0;
  for (const Heatmap& heatmap : page.heatmaps) {
    const std::vector<std::string>& labels = horizontal ? heatmap.x_labels : heatmap.y_labels;
    for (std::size_t i = 0; i < heatmap.values.shape[horizontal ? 1 : 0]; i += ticks.step)
      width = std::max(width, text_width(label_text(labels, i), ticks.font));
  }
  const double space = static_cast<double>(ticks.step) * cell;
  if (!horizontal || width + 6 <= space) {
    ticks.extent = horizontal ? ticks.font * 1.2 : width;
  } else if (space >= ticks.font * 1.8 && page.heatmaps.size() % layout.columns == 0) {
    // Lines of text turned by 45 degrees are space * sin 45 apart, and some fonts have characters that are
    // higher than the font size. Labels are not turned by 45 degrees if the last row of the grid is
    // incomplete: the labels of a heatmap above an empty place would reach into the heatmap left of the
    // place.
    ticks.turn = -45;
    ticks.extent = (width + ticks.font) * std::sqrt(0.5);
  } else {
    ticks.turn = -90;
    ticks.extent = width;
  }
  ticks.extent += kTickLength + 4;
  return ticks;
}

/// Computes the scale of the trees, which is the same for all heatmaps of a page, and the space for them. The
/// scale begins at 0, or near the least distance if the distances differ little.
void lay_out_trees(PageLayout& layout, const HeatmapPage& page) {
  std::vector<double> distances;
  for (const Heatmap& heatmap : page.heatmaps) {
    if (!heatmap.tree.groups.empty()) layout.strip = kStripHeight + 4;
    for (const ColumnTree::Join& merge : heatmap.tree.merges) distances.push_back(merge.distance);
  }
  if (distances.empty()) return;
  const auto [least, most] = std::ranges::minmax(distances);
  const double spread = most - least;
  const double low = spread > 0.001 && 2 * spread < least ? least - spread / 4 : 0;
  layout.tree_axis = chart_axis({low, std::max(most, 0.01)}, false);
  for (const double tick : layout.tree_axis.ticks)
    layout.tree_labels = std::max(layout.tree_labels, text_width(tick_label(tick), kTreeFont));
  layout.above = layout.strip + kTreeHeight + 4;
  layout.y_ticks.extent = std::max(layout.y_ticks.extent, layout.tree_labels + kTickLength + kTreeFont + 9);
}

bool share_labels(const std::vector<Heatmap>& heatmaps) {
  return std::ranges::all_of(heatmaps, [&](const Heatmap& heatmap) {
    return heatmap.values.shape == heatmaps[0].values.shape && heatmap.x_labels == heatmaps[0].x_labels &&
           heatmap.y_labels == heatmaps[0].y_labels;
  });
}

/// Returns the positions of heatmaps with these extents, in order. Sets `end` to the end of the
/// last one.
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

/// Breaks the titles of a grid into lines that are not wider than their heatmaps.
void break_titles(PageLayout& layout, const HeatmapPage& page) {
  std::size_t most = 0;  // lines
  for (const Heatmap& heatmap : page.heatmaps) {
    const double width = static_cast<double>(heatmap.values.shape[1]) * layout.cell + 12;
    layout.panel_titles.push_back(subtitle_lines({heatmap.title}, std::max(width, 50.0)));
    most = std::max(most, layout.panel_titles.back().size());
  }
  layout.title_space = static_cast<double>(most) * kPanelTitleLine + 6;
}

/// Computes the positions of the heatmaps. A grid row is as high as its highest heatmap, and a grid column as
/// wide as its widest heatmap.
void place_panels(PageLayout& layout, const HeatmapPage& page) {
  std::vector<double> widths(layout.columns);
  std::vector<double> heights(layout.rows);
  for (std::size_t i = 0; i < page.heatmaps.size(); ++i) {
    const Shape& shape = page.heatmaps[i].values.shape;
    double& height = heights[i / layout.columns];
    double& width = widths[i % layout.columns];
    height = std::max(height, static_cast<double>(shape[0]) * layout.cell);
    width = std::max(width, static_cast<double>(shape[1]) * layout.cell);
  }
  const double gap_x = 18 + (layout.edge_labels ? 0 : layout.y_ticks.extent);
  const double gap_y =
      layout.title_space + 12 + (layout.edge_labels ? 0 : layout.x_ticks.extent) + layout.above;
  layout.column_x = line_up(widths, gap_x, layout.plot_width);
  layout.row_y = line_up(heights, gap_y, layout.plot_height);
}

/// Returns round numbers on a scale: 1, 2 and 5 times powers of ten if the scale is logarithmic.
std::vector<double> bar_ticks(const HeatmapScale& scale) {
  std::vector<double> ticks;
  if (!scale.logarithmic) ticks = chart_axis({scale.low, scale.high}, false).ticks;
  for (int power = -9; scale.logarithmic && power < 9; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) ticks.push_back(factor * std::pow(10.0, power));
  }
  const double slack = 1e-9 * (scale.high - scale.low);
  std::erase_if(ticks, [&](double tick) { return tick < scale.low - slack || tick > scale.high + slack; });
  return ticks;
}

void place_page(PageLayout& layout, const HeatmapPage& page) {
  const Heatmap& first = page.heatmaps[0];
  const double titles =
      std::max(text_width(page.title, kTitleFont, true), page.subtitle.empty() ? 0.0 : 480.0);
  const double title_half = titles / 2 + kMargin;
  layout.subtitle = subtitle_lines(page.subtitle, std::max(titles, layout.plot_width));
  const double axis = kAxisFont + 8;
  layout.left = kMargin + layout.y_ticks.extent + (first.y_axis.empty() ? 0 : axis);
  layout.left = std::max(layout.left, title_half - layout.plot_width / 2);
  // The turned label of the first column begins to the left of the heatmap.
  if (layout.x_ticks.turn == -45)
    layout.left = std::max(layout.left, layout.x_ticks.extent - layout.cell / 2 + 4);
  layout.top = kMargin + (page.title.empty() ? 0 : kTitleFont + 14) + layout.title_space +
               kSubtitleLine * static_cast<double>(layout.subtitle.size()) + layout.above;
  const double bar_label = std::clamp(text_width(page.scale.label, kAxisFont), 120.0, 440.0);
  const double content_height = std::max(layout.plot_height, bar_label);
  layout.bar_height = std::clamp(layout.plot_height, bar_label, 440.0);
  layout.bar_x = layout.left + layout.plot_width + 24;
  layout.bar_y = layout.top + (content_height - layout.bar_height) / 2;
  for (const double tick : bar_ticks(page.scale))
    layout.bar_text = std::max(layout.bar_text, text_width(tick_label(tick), kBarFont));
  const double bar =
      kBarWidth + layout.bar_text + kTickLength + 4 + (page.scale.label.empty() ? 0 : axis + 6);
  layout.width = std::max(layout.bar_x + bar + kMargin, layout.left + layout.plot_width / 2 + title_half);
  // The turned label of the last column ends below this column, so no label extends beyond the right edge.
  const double below = layout.plot_height + layout.x_ticks.extent + (first.x_axis.empty() ? 0 : axis);
  layout.height = layout.top + std::max(content_height, below) + kMargin;
  if (!page.legend.empty()) layout.width = std::max(layout.width, 600.0);
}

PageLayout lay_out(const HeatmapPage& page, double zoom) {
  PageLayout layout;
  const std::size_t count = page.heatmaps.size();
  layout.grid = count > 1;
  layout.columns = grid_columns(page);
  layout.rows = (count + layout.columns - 1) / layout.columns;
  layout.edge_labels = layout.grid && !has_trees(page) && share_labels(page.heatmaps);
  layout.cell = cell_size(page, layout.columns, zoom);
  layout.values = longest_side(page) <= most_with_values(page) && layout.cell >= kMinSizeWithValues;
  layout.pointable = cells_of(page) <= kMaxPointable;
  layout.x_ticks = lay_out_ticks(page, layout, true);
  layout.y_ticks = lay_out_ticks(page, layout, false);
  lay_out_trees(layout, page);
  if (layout.grid) break_titles(layout, page);
  place_panels(layout, page);
  place_page(layout, page);
  return layout;
}

/// Formats the value of a cell; empty if the value is undefined or, without `small_values`, less than 0.01 in
/// magnitude.
std::string cell_text(double value, bool small_values) {
  const double size = std::abs(value);
  if (std::isnan(value) || (size < 0.01 && !small_values)) return {};
  return fixed(value, size < 10 ? 2 : size < 100 ? 1 : 0);
}

// The colours of the scale have the indices 0 to 255.
constexpr std::size_t kLevels = 256;
constexpr std::size_t kUndefinedLevel = kLevels;

double place_of(const HeatmapScale& scale, double value) {
  if (value <= scale.low) return 0;  // also if it has no logarithm
  const ChartAxis axis{.low = scale.low, .high = scale.high, .logarithmic = scale.logarithmic};
  return std::clamp(axis.place(value), 0.0, 1.0);
}

std::size_t level_of(const HeatmapScale& scale, double value) {
  if (std::isnan(value)) return kUndefinedLevel;
  return static_cast<std::size_t>(std::lround(place_of(scale, value) * static_cast<double>(kLevels - 1)));
}

/// Draws one rectangle per cell, with a tooltip.
void draw_pointable(SvgCanvas& canvas, const Heatmap& heatmap, const HeatmapScale& scale, double size) {
  const Colormap& map = colormap(scale.diverging, scale.colormap);
  const std::size_t columns = heatmap.values.shape[1];
  for (std::size_t i = 0; i < heatmap.values.size(); ++i) {
    const double value = heatmap.values.at(i);
    const std::string colour = std::isnan(value) ? map.no_value : hex(colour_at(map, place_of(scale, value)));
    const std::size_t row = i / columns;
    const std::size_t column = i % columns;
    canvas.add(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{}, {}: {}</title></rect>\n",
        coordinate(static_cast<double>(column) * size), coordinate(static_cast<double>(row) * size),
        coordinate(size), coordinate(size), colour, xml_escaped(label_or_index(heatmap.y_labels, row)),
        xml_escaped(label_or_index(heatmap.x_labels, column)),
        std::isnan(value) ? "no value" : fmt::format("{:.4g}", value));
  }
}

/// Draws one path per colour except white, the colour of the page. A path contains, for all rows, the
/// horizontal runs of cells of its colour, so a cell takes only a few bytes.
void draw_compact(SvgCanvas& canvas, const Heatmap& heatmap, const HeatmapScale& scale, double size) {
  const Colormap& map = colormap(scale.diverging, scale.colormap);
  std::array<std::string, kLevels + 1> paths;
  const std::size_t rows = heatmap.values.shape[0];
  const std::size_t columns = heatmap.values.shape[1];
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t first = 0; first < columns;) {
      const std::size_t level = level_of(scale, heatmap.values.at(row * columns + first));
      std::size_t last = first + 1;
      while (last < columns && level_of(scale, heatmap.values.at(row * columns + last)) == level) ++last;
      fmt::format_to(std::back_inserter(paths[level]), "M{} {}H{}v1H{}z", first, row, last, first);
      first = last;
    }
  }
  canvas.add("<g transform=\"scale({})\">\n", coordinate(size));
  for (std::size_t level = 0; level < paths.size(); ++level) {
    const double place = static_cast<double>(level) / static_cast<double>(kLevels - 1);
    const std::string colour = level == kUndefinedLevel ? map.no_value : hex(colour_at(map, place));
    if (paths[level].empty() || colour == "#ffffff") continue;
    canvas.add("<path fill=\"{}\" d=\"{}\"/>\n", colour, paths[level]);
  }
  canvas.raw("</g>\n");
}

/// Returns the attribute that makes the text of a dark cell white; empty for other cells.
std::string_view ink_of(const HeatmapScale& scale, double value) {
  const Colormap& map = colormap(scale.diverging, scale.colormap);
  const double place = place_of(scale, value);
  return place < map.light_from || place > map.light_to ? R"( fill="#ffffff")" : "";
}

std::string_view letter_colour(std::size_t line) {
  return line < kColours.size() ? kColours[line] : "inherit";
}

/// Returns the text of a cell in which the letters of the legend have their colours.
std::string coloured(std::string_view text, const std::vector<std::string>& legend) {
  std::string markup;
  for (const char letter : text) {
    const auto line =
        std::ranges::find_if(legend, [&](const auto& each) { return each.starts_with(letter); });
    markup += fmt::format("<tspan fill=\"{}\">{}</tspan>",
                          letter_colour(static_cast<std::size_t>(line - legend.begin())),
                          xml_escaped({&letter, 1}));
  }
  return markup;
}

void draw_values(SvgCanvas& canvas, const Heatmap& heatmap, const HeatmapPage& page, double size) {
  const double font = std::clamp(size * 0.3, 8.0, 14.0);
  const std::size_t columns = heatmap.values.shape[1];
  canvas.add("<g font-size=\"{}\" text-anchor=\"middle\"{}>\n", coordinate(font),
             page.legend.empty() ? "" : R"( font-weight="700" letter-spacing="1.5")");
  for (std::size_t i = 0; i < heatmap.values.size(); ++i) {
    const double value = heatmap.values.at(i);
    const std::string shown = page.cell_texts.empty() ? cell_text(value, page.small_values)
                                                      : coloured(page.cell_texts[i], page.legend);
    if (shown.empty()) continue;
    const std::size_t row = i / columns;
    const double x = (static_cast<double>(i % columns) + 0.5) * size;
    const double y = (static_cast<double>(row) + 0.5) * size + font * 0.36;
    if (!page.legend.empty() && !std::isnan(value)) {  // a white background of the letters
      canvas.add(
          "<text x=\"{}\" y=\"{}\" fill=\"#fff\" stroke=\"#fff\" stroke-width=\"8\" "
          "stroke-linejoin=\"round\">{}</text>\n",
          coordinate(x), coordinate(y), xml_escaped(page.cell_texts[i]));
    }
    canvas.add("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", coordinate(x), coordinate(y),
               ink_of(page.scale, value), shown);
  }
  canvas.raw("</g>\n");
}

void draw_x_ticks(SvgCanvas& canvas, const PageLayout& layout, const Heatmap& heatmap, SvgPoint at) {
  const Ticks& ticks = layout.x_ticks;
  const double top = at.y + static_cast<double>(heatmap.values.shape[0]) * layout.cell;
  for (std::size_t i = 0; i < heatmap.values.shape[1]; i += ticks.step) {
    const double x = at.x + (static_cast<double>(i) + 0.5) * layout.cell;
    canvas.line(x, top, x, top + kTickLength);
    TextPosition place{x, top + kTickLength + 3 + ticks.font * 0.8, ticks.font};
    if (ticks.turn != 0) {  // a turned label ends below its tick
      const double down = ticks.turn == -90 ? 0 : ticks.font * 0.3;
      place = {x + ticks.font * 0.36, top + kTickLength + 4 + down, ticks.font, "end", ticks.turn};
    }
    canvas.text(place, label_text(heatmap.x_labels, i));
  }
}

void draw_y_ticks(SvgCanvas& canvas, const PageLayout& layout, const Heatmap& heatmap, SvgPoint at) {
  for (std::size_t i = 0; i < heatmap.values.shape[0]; i += layout.y_ticks.step) {
    const double y = at.y + (static_cast<double>(i) + 0.5) * layout.cell;
    canvas.y_tick(at.x, y, layout.y_ticks.font, label_text(heatmap.y_labels, i));
  }
}

/// Draws the tree of a heatmap above it, and the colours of the groups of its columns between the two. `at`
/// is the upper left corner of the heatmap.
void draw_tree(SvgCanvas& canvas, const PageLayout& layout, const Heatmap& heatmap, SvgPoint at) {
  const ColumnTree& tree = heatmap.tree;
  if (tree.merges.empty()) return;
  for (std::size_t i = 0; i < tree.column_groups.size(); ++i) {
    const std::size_t group = tree.column_groups[i];
    canvas.add(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" shape-rendering=\"crispEdges\">"
        "<title>{}, {}</title></rect>\n",
        coordinate(at.x + static_cast<double>(i) * layout.cell), coordinate(at.y - kStripHeight - 2),
        coordinate(layout.cell), coordinate(kStripHeight), list_colour(group, tree.groups.size()),
        xml_escaped(label_or_index(heatmap.x_labels, i)), xml_escaped(tree.groups[group]));
  }
  const double bottom = at.y - layout.strip;
  const auto y_of = [&](double distance) { return bottom - layout.tree_axis.place(distance) * kTreeHeight; };
  std::vector<SvgPoint> tops;  // of the clusters
  for (std::size_t i = 0; i <= tree.merges.size(); ++i)
    tops.push_back({at.x + (static_cast<double>(i) + 0.5) * layout.cell, bottom});
  canvas.raw("<g fill=\"none\" stroke=\"#262626\">\n");
  for (const ColumnTree::Join& merge : tree.merges) {
    const SvgPoint first = tops[merge.first];
    const SvgPoint second = tops[merge.second];
    const double y = y_of(merge.distance);
    canvas.add("<path d=\"M{} {}V{}H{}V{}\"><title>{} {:.4g}</title></path>\n", coordinate(first.x),
               coordinate(first.y), coordinate(y), coordinate(second.x), coordinate(second.y),
               xml_escaped(tree.axis), merge.distance);
    tops.push_back({(first.x + second.x) / 2, y});
  }
  canvas.raw("</g>\n");
  canvas.line(at.x, bottom, at.x, bottom - kTreeHeight);
  for (const double tick : layout.tree_axis.ticks)
    canvas.y_tick(at.x, y_of(tick), kTreeFont, tick_label(tick));
  const double left = at.x - kTickLength - layout.tree_labels - 8;
  canvas.text({left, bottom - kTreeHeight / 2, kTreeFont, "middle", -90}, tree.axis);
}

void draw_panel(SvgCanvas& canvas, const PageLayout& layout, const HeatmapPage& page, std::size_t index) {
  const Heatmap& heatmap = page.heatmaps[index];
  const std::size_t row = index / layout.columns;
  const std::size_t column = index % layout.columns;
  const SvgPoint at{layout.left + layout.column_x[column], layout.top + layout.row_y[row]};
  const double width = static_cast<double>(heatmap.values.shape[1]) * layout.cell;
  const double height = static_cast<double>(heatmap.values.shape[0]) * layout.cell;
  canvas.add("<g transform=\"translate({} {})\">\n<g shape-rendering=\"crispEdges\">\n", coordinate(at.x),
             coordinate(at.y));
  (layout.pointable ? draw_pointable : draw_compact)(canvas, heatmap, page.scale, layout.cell);
  canvas.raw("</g>\n");
  if (layout.values) draw_values(canvas, heatmap, page, layout.cell);
  canvas.raw("</g>\n");
  canvas.frame(at.x, at.y, width, height);
  const bool lowest = index + layout.columns >= page.heatmaps.size();
  if (!layout.edge_labels || lowest) draw_x_ticks(canvas, layout, heatmap, at);
  if (!layout.edge_labels || column == 0) draw_y_ticks(canvas, layout, heatmap, at);
  draw_tree(canvas, layout, heatmap, at);
  if (!layout.grid) return;
  const std::vector<std::string>& lines = layout.panel_titles[index];
  double y = at.y - layout.above - 6 - static_cast<double>(lines.size() - 1) * kPanelTitleLine;
  for (const std::string& line : lines) {
    canvas.text({at.x + width / 2, y, kPanelTitleFont}, line);
    y += kPanelTitleLine;
  }
}

void draw_titles(SvgCanvas& canvas, const PageLayout& layout, const HeatmapPage& page) {
  const Heatmap& first = page.heatmaps[0];
  const double centre = layout.left + layout.plot_width / 2;
  const double middle = layout.top + layout.plot_height / 2;
  canvas.titles(centre, page.title, layout.subtitle);
  canvas.text({centre, layout.top + layout.plot_height + layout.x_ticks.extent + kAxisFont + 4, kAxisFont},
              first.x_axis);
  canvas.text({layout.left - layout.y_ticks.extent - 8, middle, kAxisFont, "middle", -90}, first.y_axis);
}

void draw_colour_bar(SvgCanvas& canvas, const PageLayout& layout, const HeatmapScale& scale) {
  const std::span<const Colour> stops = colormap(scale.diverging, scale.colormap).stops;
  canvas.raw("<defs><linearGradient id=\"scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">");
  for (std::size_t i = 0; i < stops.size(); ++i) {
    canvas.add("<stop offset=\"{}%\" stop-color=\"{}\"/>",
               coordinate(100.0 * static_cast<double>(i) / static_cast<double>(stops.size() - 1)),
               hex(stops[i]));
  }
  canvas.raw("</linearGradient></defs>\n");
  canvas.add("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"url(#scale)\"/>\n",
             coordinate(layout.bar_x), coordinate(layout.bar_y), coordinate(kBarWidth),
             coordinate(layout.bar_height));
  canvas.frame(layout.bar_x, layout.bar_y, kBarWidth, layout.bar_height);
  const double right = layout.bar_x + kBarWidth;
  double last = layout.height;
  for (const double tick : bar_ticks(scale)) {
    const double y = layout.bar_y + layout.bar_height * (1 - place_of(scale, tick));
    if (y > last - kBarFont) continue;
    last = y;
    canvas.line(right, y, right + kTickLength, y);
    canvas.text({right + kTickLength + 4, y + kBarFont * 0.36, kBarFont, "start"}, tick_label(tick));
  }
  const double label_x = right + kTickLength + 4 + layout.bar_text + kAxisFont + 4;
  canvas.text({label_x, layout.bar_y + layout.bar_height / 2, kAxisFont, "middle", -90}, scale.label);
}

/// Draws the legend of letters below the heatmap. Returns the height of the page.
double draw_letter_legend(SvgCanvas& canvas, const PageLayout& layout, const HeatmapPage& page) {
  double y = layout.height;
  for (std::size_t i = 0; i < page.legend.size(); ++i) {
    if (page.legend[i].empty()) continue;
    canvas.add("<g fill=\"{}\">", letter_colour(i));
    canvas.text({kMargin, y + 6, kPanelTitleFont, "start", 0, true}, page.legend[i].substr(0, 1));
    canvas.raw("</g>\n");
    for (const std::string& line : subtitle_lines({page.legend[i].substr(2)}, layout.width - 4 * kMargin)) {
      canvas.text({kMargin + 20, y + 6, kPanelTitleFont, "start"}, line);
      y += kSubtitleLine;
    }
  }
  return y;
}

/// Draws the legend of the groups of columns below the heatmaps. Returns the height of the page.
double draw_group_legend(SvgCanvas& canvas, const PageLayout& layout, const HeatmapPage& page) {
  std::vector<std::pair<std::string, std::string>> entries;  // name and colour
  for (const Heatmap& heatmap : page.heatmaps) {
    const std::vector<std::string>& groups = heatmap.tree.groups;
    for (std::size_t i = 0; i < groups.size() && !heatmap.tree.merges.empty(); ++i) {
      const std::pair entry(groups[i], list_colour(i, groups.size()));
      if (std::ranges::find(entries, entry) == entries.end()) entries.push_back(entry);
    }
  }
  if (entries.empty()) return layout.height;
  double x = layout.left;
  double y = layout.height;
  for (const auto& [name, colour] : entries) {
    const double width = text_width(name, kPanelTitleFont) + 32;
    if (x + width > layout.width) {
      x = layout.left;
      y += kSubtitleLine;
    }
    canvas.add("<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n", coordinate(x),
               coordinate(y - 9), colour);
    canvas.text({x + 15, y, kPanelTitleFont, "start"}, name);
    x += width;
  }
  return y + kMargin;
}

/// Sets the colours of the scale, and the ends that are given. The label says if the scale is logarithmic.
void set_scale(HeatmapScale& scale, const PictureOptions& options) {
  const auto& [low, high] = std::pair(options.vmin, options.vmax);
  scale.colormap = options.colormap;
  scale.low = low.value_or(scale.diverging && high ? -*high : scale.low);
  scale.high = high.value_or(scale.diverging && low ? -*low : scale.high);
  if (scale.low >= scale.high)
    fail(Status::usage, "--{}: the scale would go from {} to {}; give --vmin and --vmax",
         low ? "vmin" : "vmax", scale.low, scale.high);
  scale.logarithmic = scale.logarithmic && scale.low > 0;
  if (scale.logarithmic) scale.label += " (logarithmic scale)";
}

}  // namespace

void write_picture(OutputFile& out, HeatmapPage page, PictureFormat format, const PictureOptions& options) {
  check(page, out.name());
  page.title = options.title.value_or(page.title);
  if (options.title) page.subtitle.clear();
  set_scale(page.scale, options);
  const PageLayout layout = lay_out(page, options.zoom());
  SvgCanvas canvas;
  for (std::size_t i = 0; i < page.heatmaps.size(); ++i) draw_panel(canvas, layout, page, i);
  draw_titles(canvas, layout, page);
  draw_colour_bar(canvas, layout, page.scale);
  const double letters = draw_letter_legend(canvas, layout, page);
  const double height = std::max(letters, draw_group_legend(canvas, layout, page));
  write_svg_as(out, canvas.document(out.name(), layout.width, height, page.title, options), format, options);
}

}  // namespace attnctl::report

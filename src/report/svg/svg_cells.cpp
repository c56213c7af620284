#include "report/svg/svg_cells.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "report/svg/colour_map.hpp"

namespace attnctl {
namespace {

// The levels of the scale have the indices 0 to 255. Undefined cells have their own index and colour.
constexpr std::size_t levels = 256;
constexpr std::size_t undefined_level = levels;
constexpr std::string_view undefined_colour = "#d9d9d9";

double place_of(const HeatmapScale& scale, double value) {
  return std::clamp((value - scale.low) / (scale.high - scale.low), 0.0, 1.0);
}

std::size_t level_of(const HeatmapScale& scale, double value) {
  if (std::isnan(value)) return undefined_level;
  return static_cast<std::size_t>(std::lround(place_of(scale, value) * static_cast<double>(levels - 1)));
}

std::string colour_of_level(const HeatmapScale& scale, std::size_t level) {
  if (level == undefined_level) return std::string(undefined_colour);
  return hex(colour_at(scale.diverging, static_cast<double>(level) / static_cast<double>(levels - 1)));
}

std::string label_or_index(const std::vector<std::string>& labels, std::size_t i) {
  return labels.empty() ? std::to_string(i) : labels[i];
}

/// Draws one rectangle per cell with a tooltip: its labels and value.
void draw_pointable(SvgCanvas& canvas, const Heatmap& heatmap, const HeatmapScale& scale, double size) {
  const std::size_t columns = heatmap.values.shape[1];
  for (std::size_t i = 0; i < heatmap.values.size(); ++i) {
    const double value = value_at(heatmap.values, i);
    const std::string colour = std::isnan(value) ? std::string(undefined_colour)
                                                 : hex(colour_at(scale.diverging, place_of(scale, value)));
    const std::size_t row = i / columns;
    const std::size_t column = i % columns;
    canvas.raw(fmt::format(
        R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}"><title>{}, {}: {}</title></rect>)",
        coordinate(static_cast<double>(column) * size), coordinate(static_cast<double>(row) * size),
        coordinate(size), coordinate(size), colour, xml_escaped(label_or_index(heatmap.y_labels, row)),
        xml_escaped(label_or_index(heatmap.x_labels, column)),
        std::isnan(value) ? "undefined" : fmt::format("{:.4g}", value)));
    canvas.raw("\n");
  }
}

/// Draws one path per colour level. Each path holds runs of equal cells of a row, so a cell takes a few
/// bytes.
void draw_compact(SvgCanvas& canvas, const Heatmap& heatmap, const HeatmapScale& scale, double size) {
  std::array<std::string, levels + 1> paths;
  const std::size_t rows = heatmap.values.shape[0];
  const std::size_t columns = heatmap.values.shape[1];
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t first = 0; first < columns;) {
      const std::size_t level = level_of(scale, value_at(heatmap.values, row * columns + first));
      std::size_t last = first + 1;
      while (last < columns && level_of(scale, value_at(heatmap.values, row * columns + last)) == level)
        ++last;
      fmt::format_to(std::back_inserter(paths[level]), "M{} {}H{}v1H{}z", first, row, last, first);
      first = last;
    }
  }
  canvas.raw(fmt::format("<g transform=\"scale({})\">\n", coordinate(size)));
  for (std::size_t level = 0; level < paths.size(); ++level) {
    const std::string colour = colour_of_level(scale, level);
    if (paths[level].empty() || colour == "#ffffff") continue;
    canvas.raw(fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", colour, paths[level]));
  }
  canvas.raw("</g>\n");
}

/// Returns the text colour of a cell: white on dark cells, grey if the value rounds to 0, otherwise black.
std::string_view ink_of(double value, double half) {
  if (std::abs(value) > half) return "#ffffff";
  return std::abs(value) < 0.005 ? "#9a9a9a" : "#262626";
}

void draw_values(SvgCanvas& canvas, const Heatmap& heatmap, const HeatmapScale& scale,
                 const CellStyle& style) {
  const double size = style.size;
  const double font = std::clamp(size * 0.3, 8.0, 14.0);
  const double half = std::max(std::abs(scale.low), std::abs(scale.high)) / 2;
  const std::size_t columns = heatmap.values.shape[1];
  for (const std::string_view ink : {"#262626", "#ffffff", "#9a9a9a"}) {
    canvas.raw(
        fmt::format("<g font-size=\"{}\" text-anchor=\"middle\" fill=\"{}\">\n", coordinate(font), ink));
    for (std::size_t i = 0; i < heatmap.values.size(); ++i) {
      const double value = value_at(heatmap.values, i);
      const std::string shown = style.texts.empty() ? cell_text(value) : xml_escaped(style.texts[i]);
      if (shown.empty() || ink_of(value, half) != ink) continue;
      const std::size_t row = i / columns;
      const double x = (static_cast<double>(i % columns) + 0.5) * size;
      const double y = (static_cast<double>(row) + 0.5) * size + font * 0.36;
      canvas.raw(fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", coordinate(x), coordinate(y), shown));
    }
    canvas.raw("</g>\n");
  }
}

}  // namespace

std::string cell_text(double value) {
  if (std::isnan(value)) return "";
  const std::string text = fmt::format("{:.2f}", value);
  return text == "-0.00" ? "0.00" : text;
}

double value_at(const Array& values, std::size_t i) {
  return std::visit([i](const auto& span) { return static_cast<double>(span[i]); }, values.values);
}

void draw_cells(SvgCanvas& canvas, const Heatmap& heatmap, const HeatmapScale& scale, const CellStyle& style,
                double x, double y) {
  canvas.raw(fmt::format("<g transform=\"translate({} {})\">\n<g shape-rendering=\"crispEdges\">\n",
                         coordinate(x), coordinate(y)));
  if (style.pointable) {
    draw_pointable(canvas, heatmap, scale, style.size);
  } else {
    draw_compact(canvas, heatmap, scale, style.size);
  }
  canvas.raw("</g>\n");
  if (style.values) draw_values(canvas, heatmap, scale, style);
  canvas.raw("</g>\n");
}

}  // namespace attnctl

#include "report/svg/svg.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "report/svg/colour_map.hpp"
#include "report/svg/svg_canvas.hpp"
#include "report/svg/svg_layout.hpp"

namespace attnctl {
namespace {

void check(const Heatmap& heatmap) {
  const Shape& shape = heatmap.values.shape;
  if (shape.size() != 2 || std::holds_alternative<std::span<const std::int64_t>>(heatmap.values.values) ||
      (!heatmap.y_labels.empty() && heatmap.y_labels.size() != shape[0]) ||
      (!heatmap.x_labels.empty() && heatmap.x_labels.size() != shape[1])) {
    throw std::invalid_argument("a heatmap whose labels do not fit its matrix");
  }
}

void check(const HeatmapPage& page, const std::string& name) {
  if (page.heatmaps.empty()) throw std::invalid_argument("a page without heatmaps");
  if (!(page.scale.low < page.scale.high)) throw std::invalid_argument("a scale without extent");
  std::size_t cells = 0;
  for (const Heatmap& heatmap : page.heatmaps) {
    check(heatmap);
    cells += heatmap.values.size();
  }
  if (cells > most_svg_cells) {
    fail(Status::limit,
         "{}: {} cells, and svg draws at most {}: select fewer layers, heads or inputs, or use "
         "--format npz",
         name, cells, most_svg_cells);
  }
}

struct Corner {
  double x, y;
};

void draw_x_ticks(SvgCanvas& canvas, const PageLayout& layout, const Heatmap& heatmap, Corner at) {
  const Ticks& ticks = layout.x_ticks;
  const double top = at.y + static_cast<double>(heatmap.values.shape[0]) * layout.cells.size;
  for (std::size_t i = 0; i < heatmap.values.shape[1]; i += ticks.step) {
    const double x = at.x + (static_cast<double>(i) + 0.5) * layout.cells.size;
    canvas.line(x, top, x, top + tick_length);
    TextPosition place{x, top + tick_length + 3 + ticks.font * 0.8, ticks.font, "middle", 0, false};
    if (ticks.turn != 0) {
      // The end of a turned label is below its tick.
      place = {x + ticks.font * 0.36,
               top + tick_length + 4 + (ticks.turn == -90 ? 0 : ticks.font * 0.3),
               ticks.font,
               "end",
               ticks.turn,
               false};
    }
    canvas.text(place, tick_label(heatmap.x_labels, i));
  }
}

void draw_y_ticks(SvgCanvas& canvas, const PageLayout& layout, const Heatmap& heatmap, Corner at) {
  const Ticks& ticks = layout.y_ticks;
  for (std::size_t i = 0; i < heatmap.values.shape[0]; i += ticks.step) {
    const double y = at.y + (static_cast<double>(i) + 0.5) * layout.cells.size;
    canvas.line(at.x - tick_length, y, at.x, y);
    canvas.text({at.x - tick_length - 3, y + ticks.font * 0.36, ticks.font, "end", 0, false},
                tick_label(heatmap.y_labels, i));
  }
}

void draw_panel(SvgCanvas& canvas, const PageLayout& layout, const HeatmapPage& page, std::size_t index) {
  const Heatmap& heatmap = page.heatmaps[index];
  const std::size_t row = index / layout.columns;
  const std::size_t column = index % layout.columns;
  const Corner at{layout.left + layout.column_x[column], layout.top + layout.row_y[row]};
  const double width = static_cast<double>(heatmap.values.shape[1]) * layout.cells.size;
  const double height = static_cast<double>(heatmap.values.shape[0]) * layout.cells.size;
  draw_cells(canvas, heatmap, page.scale, layout.cells, at.x, at.y);
  canvas.frame(at.x, at.y, width, height);
  const bool lowest = index + layout.columns >= page.heatmaps.size();
  if (!layout.edge_labels || lowest) draw_x_ticks(canvas, layout, heatmap, at);
  if (!layout.edge_labels || column == 0) draw_y_ticks(canvas, layout, heatmap, at);
  if (layout.grid) {
    canvas.text({at.x + width / 2, at.y - 6, panel_title_font, "middle", 0, false}, heatmap.title);
  }
}

void draw_titles(SvgCanvas& canvas, const PageLayout& layout, const HeatmapPage& page) {
  const Heatmap& first = page.heatmaps[0];
  const double centre = layout.left + layout.plot_width / 2;
  const double middle = layout.top + layout.plot_height / 2;
  canvas.text({centre, 16 + title_font * 0.8, title_font, "middle", 0, true},
              layout.grid ? page.title : first.title);
  canvas.text({centre, layout.top + layout.plot_height + layout.x_ticks.extent + axis_font + 4, axis_font,
               "middle", 0, false},
              first.x_axis);
  canvas.text({layout.left - layout.y_ticks.extent - 8, middle, axis_font, "middle", -90, false},
              first.y_axis);
}

void draw_colour_bar(SvgCanvas& canvas, const PageLayout& layout, const HeatmapScale& scale) {
  const auto anchors = colour_anchors(scale.diverging);
  canvas.raw("<defs><linearGradient id=\"scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">");
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    canvas.raw(
        fmt::format("<stop offset=\"{}%\" stop-color=\"{}\"/>",
                    coordinate(100.0 * static_cast<double>(i) / static_cast<double>(anchors.size() - 1)),
                    hex(anchors[i])));
  }
  canvas.raw("</linearGradient></defs>\n");
  canvas.raw(fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"url(#scale)\"/>\n",
                         coordinate(layout.bar_x), coordinate(layout.bar_y), coordinate(bar_width),
                         coordinate(layout.bar_height)));
  canvas.frame(layout.bar_x, layout.bar_y, bar_width, layout.bar_height);
  const int ticks = !scale.diverging ? 5 : layout.bar_height >= 200 ? 8 : 4;
  const double right = layout.bar_x + bar_width;
  for (int i = 0; i <= ticks; ++i) {
    const double share = static_cast<double>(i) / ticks;
    const double y = layout.bar_y + layout.bar_height * (1 - share);
    canvas.line(right, y, right + tick_length, y);
    canvas.text({right + tick_length + 4, y + bar_font * 0.36, bar_font, "start", 0, false},
                cell_text(scale.low + share * (scale.high - scale.low)));
  }
  const double label_x = right + tick_length + 4 + text_width("-0.00", bar_font) + axis_font + 4;
  canvas.text({label_x, layout.bar_y + layout.bar_height / 2, axis_font, "middle", -90, false}, scale.label);
}

}  // namespace

void write_svg(OutputFile& out, const HeatmapPage& page) {
  const std::span<const std::string> texts = page.cell_texts;
  check(page, out.name());
  if (!texts.empty() && (page.heatmaps.size() != 1 || texts.size() != page.heatmaps[0].values.size()))
    throw std::invalid_argument("texts that do not fit the cells of a heatmap");
  PageLayout layout = lay_out(page);
  layout.cells.texts = texts;
  SvgCanvas canvas;
  for (std::size_t i = 0; i < page.heatmaps.size(); ++i) draw_panel(canvas, layout, page, i);
  draw_titles(canvas, layout, page);
  draw_colour_bar(canvas, layout, page.scale);
  out.write(canvas.document(layout.width, layout.height, layout.grid ? page.title : page.heatmaps[0].title));
}

}  // namespace attnctl

#include "report/svg_canvas.hpp"

#include <cmath>

#include "base/error.hpp"
#include "base/text.hpp"
#include "report/text.hpp"

namespace attnctl::report {

namespace {

constexpr std::string_view kInk = "#262626";

/// Returns the value of the attribute font-family. serif and monospace are not combined with other
/// names, because fontconfig prefers each other name of a list to these kinds of fonts.
std::string font_families(const std::string& family) {
  constexpr std::string_view kDefault =
      "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
  if (family == "serif" || family == "sans-serif" || family == "monospace") return family;
  return (family.empty() ? "" : "'" + family + "', ") + std::string(kDefault);
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : escaped(text)) {
    constexpr std::string_view kMarkup = "&<>\"'";
    constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    const std::size_t index = kMarkup.find(c);
    index == std::string_view::npos ? out += c : out += kEntities[index];
  }
  for (const std::string_view forbidden : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {  // U+FFFE, U+FFFF
    for (std::size_t at = out.find(forbidden); at != std::string::npos; at = out.find(forbidden, at)) {
      out.replace(at, forbidden.size(), "\xEF\xBF\xBD");
    }
  }
  return out;
}

std::string coordinate(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

double text_width(std::string_view text, double font, bool strong) {
  return (strong ? 0.64 : 0.58) * font * static_cast<double>(display_width(text));
}

std::vector<std::string> subtitle_lines(const std::vector<std::string>& subtitle, double width) {
  const auto columns = static_cast<std::size_t>(width / text_width("m", kPanelTitleFont));
  std::vector<std::string> lines;
  for (const std::string& line : subtitle) {
    std::string rest = shortened(escaped(line), 4 * columns);
    while (display_width(rest) > columns) {
      std::string first = shortened(rest, columns);
      first.resize(first.size() - 3);  // without the ellipsis
      if (const std::size_t space = first.rfind(' '); space != std::string::npos) first.resize(space + 1);
      rest.erase(0, first.size());
      lines.push_back(std::move(first));
    }
    lines.push_back(std::move(rest));
  }
  return lines;
}

void SvgCanvas::text(const TextPosition& place, std::string_view content) {
  if (content.empty()) return;
  const std::string x = coordinate(place.x);
  const std::string y = coordinate(place.y);
  add(R"(<text x="{}" y="{}" font-size="{}")", x, y, coordinate(place.size));
  if (place.anchor != "start") add(R"( text-anchor="{}")", place.anchor);
  if (place.turn != 0) add(" transform=\"rotate({} {} {})\"", coordinate(place.turn), x, y);
  if (place.strong) raw(R"( font-weight="600")");
  add(">{}</text>\n", xml_escaped(content));
}

void SvgCanvas::line(double x1, double y1, double x2, double y2) {
  add("<path d=\"M{} {}L{} {}\" stroke=\"{}\" stroke-width=\"0.8\"/>\n", coordinate(x1), coordinate(y1),
      coordinate(x2), coordinate(y2), kInk);
}

void SvgCanvas::x_tick(double x, double y, double font, std::string_view label) {
  line(x, y, x, y + kTickLength);
  text({x, y + kTickLength + font + 2, font}, label);
}

void SvgCanvas::y_tick(double x, double y, double font, std::string_view label) {
  line(x - kTickLength, y, x, y);
  text({x - kTickLength - 3, y + font * 0.36, font, "end"}, label);
}

void SvgCanvas::frame(double x, double y, double width, double height) {
  add("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{}\" "
      "stroke-width=\"0.8\"/>\n",
      coordinate(x), coordinate(y), coordinate(width), coordinate(height), kInk);
}

void SvgCanvas::titles(double centre, std::string_view title, const std::vector<std::string>& subtitle) {
  double y = 16 + kTitleFont * 0.8;
  text({centre, y, kTitleFont, "middle", 0, true}, title);
  for (const std::string& line : subtitle) text({centre, y += kSubtitleLine, kPanelTitleFont}, line);
}

std::string SvgCanvas::document(const std::string& file, double width, double height, std::string_view title,
                                const PictureOptions& options) const {
  constexpr double kMostPixels = 32767;
  width = std::ceil(width);
  height = std::ceil(height);
  const double shown_width = options.width ? static_cast<double>(*options.width) : width * options.zoom();
  const double shown_height = height * (shown_width / width);
  if (shown_width > kMostPixels || shown_height > kMostPixels)
    fail(Status::limit,
         "{}: the picture has {} x {} pixels, and a side may have up to {}; select fewer layers, heads or "
         "inputs, or give a smaller --width",
         file, coordinate(shown_width), coordinate(shown_height), kMostPixels);
  return fmt::format(
             R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{4}" height="{5}" viewBox="0 0 {0} {1}" role="img" font-family="{6}" fill="{3}">
<title>{2}</title>
<rect width="{0}" height="{1}" fill="#ffffff"/>
)",
             coordinate(width), coordinate(height), xml_escaped(title), kInk, coordinate(shown_width),
             coordinate(shown_height), font_families(options.font_family)) +
         body_ + "</svg>\n";
}

}  // namespace attnctl::report

#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/writers.hpp"

namespace attnctl::report {

// Sizes in pixels, except for kMaxLabel. PictureOptions::zoom() scales these and all other coordinates.
inline constexpr double kTitleFont = 17;
inline constexpr double kAxisFont = 13;
inline constexpr double kPanelTitleFont = 12;
inline constexpr double kSubtitleLine = 17;  // height of a line of a subtitle
inline constexpr double kTickLength = 4;
inline constexpr std::size_t kMaxLabel = 20;  // in columns of display_width()

/// Makes text safe for XML character data and attributes: escapes markup, makes control characters visible,
/// and replaces characters that XML does not allow.
[[nodiscard]] std::string xml_escaped(std::string_view text);

/// Formats a coordinate with at most two decimals and without trailing zeros.
[[nodiscard]] std::string coordinate(double value);

/// Estimates the width of a text, in pixels, at a font size of `font` pixels.
[[nodiscard]] double text_width(std::string_view text, double font, bool strong = false);

/// Breaks each line at spaces into lines of at most `width` pixels, and shortens it to about four of these.
[[nodiscard]] std::vector<std::string> subtitle_lines(const std::vector<std::string>& subtitle, double width);

struct SvgPoint {
  double x = 0;
  double y = 0;
};

struct TextPosition {
  double x = 0;
  double y = 0;
  double size = 12;                    // font size in pixels
  std::string_view anchor = "middle";  // text-anchor: start, middle or end
  double turn = 0;                     // rotation about (x, y) in degrees, clockwise
  bool strong = false;
};

class SvgCanvas {
 public:
  void text(const TextPosition& place, std::string_view content);
  void line(double x1, double y1, double x2, double y2);
  /// Add a tick and its label: x_tick() below and y_tick() left of the point (x, y) on the frame of a plot.
  /// `font` is the font size in pixels.
  void x_tick(double x, double y, double font, std::string_view label);
  void y_tick(double x, double y, double font, std::string_view label);
  void frame(double x, double y, double width, double height);
  void raw(std::string_view markup) { body_ += markup; }
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }

  /// Draws the title of the page and, below it, the lines of the subtitle.
  void titles(double centre, std::string_view title, const std::vector<std::string>& subtitle);

  /// Returns the whole document. `title` is the title element, which screen readers read; `file` is the name
  /// in the message of Error(limit), which is thrown if a side is longer than 32,767 pixels, the most that
  /// programs which draw SVG support.
  [[nodiscard]] std::string document(const std::string& file, double width, double height,
                                     std::string_view title, const PictureOptions& options) const;

 private:
  std::string body_;
};

}  // namespace attnctl::report

#pragma once

#include <string>
#include <string_view>

namespace attnctl {

/// Escapes text for XML character data and attributes: escapes markup, makes control characters visible, and
/// replaces characters that XML forbids.
[[nodiscard]] std::string xml_escaped(std::string_view text);

/// Formats a coordinate with at most two decimals and without trailing zeros.
[[nodiscard]] std::string coordinate(double value);

/// The position, size and direction of a text.
struct TextPosition {
  double x = 0;
  double y = 0;
  double size = 12;                    // in pixels
  std::string_view anchor = "middle";  // text-anchor: start, middle or end
  double turn = 0;                     // degrees clockwise about (x, y)
  bool strong = false;
};

/// Collects the elements of an SVG.
class SvgCanvas {
 public:
  void text(const TextPosition& place, std::string_view content);
  void line(double x1, double y1, double x2, double y2);
  /// Adds an unfilled rectangle.
  void frame(double x, double y, double width, double height);
  void raw(std::string_view markup) { body_ += markup; }

  /// Returns the whole document. Its description, which screen readers read, is `title`.
  [[nodiscard]] std::string document(double width, double height, std::string_view title) const;

 private:
  std::string body_;
};

}  // namespace attnctl

#pragma once

#include <string>
#include <string_view>

namespace attnctl {

/// Text as XML's character data and attributes take it: markup escaped, control characters shown, characters
/// that XML forbids replaced.
[[nodiscard]] std::string xml_escaped(std::string_view text);

/// A coordinate: at most two decimals, without trailing zeros.
[[nodiscard]] std::string coordinate(double value);

/// Where a text stands.
struct TextPlace {
  double x = 0;
  double y = 0;
  double size = 12;                    // in pixels
  std::string_view anchor = "middle";  // start, middle, end
  double turn = 0;                     // degrees clockwise about (x, y)
  bool strong = false;
};

/// Collects the elements of an SVG.
class SvgCanvas {
 public:
  void text(const TextPlace& place, std::string_view content);
  void line(double x1, double y1, double x2, double y2);
  /// An unfilled frame.
  void frame(double x, double y, double width, double height);
  void raw(std::string_view markup) { body_ += markup; }

  /// The whole document; `description` is for readers that see no picture.
  [[nodiscard]] std::string document(double width, double height, std::string_view title) const;

 private:
  std::string body_;
};

}  // namespace attnctl

#include "report/text/text_cells.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/text/text_width.hpp"

namespace attnctl {

void append_aligned(std::string& line, std::string_view text, std::size_t width, bool right) {
  const std::size_t own = display_width(text);
  const std::size_t fill = width - std::min(width, own);
  if (right) line.append(fill, ' ');
  line += text;
  if (!right) line.append(fill, ' ');
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.front() == '-' && text.find_first_of("123456789") == std::string::npos) text.erase(0, 1);
  return text;
}

}  // namespace attnctl

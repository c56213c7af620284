#include "report/json/json_text.hpp"

#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"

namespace attnctl {
namespace {

bool needs_escape(char32_t point) {
  return point < 0x20 || point == '"' || point == '\\' || (point >= 0x7F && point < 0xA0) ||
         point == 0x2028 || point == 0x2029;
}

void append_escape(std::string& text, char32_t point) {
  switch (point) {
    case '"':
      text += "\\\"";
      return;
    case '\\':
      text += "\\\\";
      return;
    case '\n':
      text += "\\n";
      return;
    case '\r':
      text += "\\r";
      return;
    case '\t':
      text += "\\t";
      return;
    default:
      fmt::format_to(std::back_inserter(text), "\\u{:04x}", static_cast<unsigned>(point));
  }
}

}  // namespace

void append_json_string(std::string& text, std::string_view value) {
  text += '"';
  while (!value.empty()) {
    const std::size_t length = utf8_sequence_length(value);
    if (length == 0) {
      text += "\xEF\xBF\xBD";
      value.remove_prefix(1);
      continue;
    }
    const std::string_view sequence = value.substr(0, length);
    const char32_t point = utf8_code_point(sequence);
    if (needs_escape(point)) {
      append_escape(text, point);
    } else {
      text += sequence;
    }
    value.remove_prefix(length);
  }
  text += '"';
}

}  // namespace attnctl

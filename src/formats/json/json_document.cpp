#include "formats/json/json_document.hpp"

#include "base/error.hpp"
#include "formats/json/json_part.hpp"
#include "formats/json/json_tree.hpp"

namespace attnctl {

using nlohmann::ordered_json;

ordered_json parse_json_part(const JsonText& text) {
  JsonTree builder;
  builder.parse(text);
  return builder.take();
}

ordered_json parse_json(const std::string& file, std::string_view text, std::size_t max_depth) {
  const std::string name = escaped(file);
  return parse_json_part({.file = name, .text = text, .max_depth = max_depth});
}

}  // namespace attnctl

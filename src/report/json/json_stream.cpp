#include "report/json/json_stream.hpp"

#include <utility>

#include "report/json/json_plan.hpp"
#include "report/json/json_text.hpp"

namespace attnctl {
namespace {

constexpr std::string_view kDocumentBegin = "{\n  ";
constexpr std::string_view kDocumentEnd = "\n}\n";

std::string text_of(const Document& document, JsonStream::Style style) {
  const NumberFormat format;
  JsonPlan plan(format);
  style == JsonStream::Style::document ? plan.add_document(document) : plan.add_lines(document);
  std::string text;
  for (const JsonPiece& piece : plan.finish()) append_piece(text, format, piece);
  return text;
}

}  // namespace

JsonStream::JsonStream(OutputFile& out, Style style, std::string section, std::string_view record)
    : out_(out), style_(style), section_(std::move(section)) {
  if (style == Style::document) {
    item_begin_ = ",\n    {";  // write_items() omits the comma of the first item
    return;
  }
  out.write_whole_lines();
  item_begin_ = "{\"record\": ";
  append_json_string(item_begin_, record);
  item_begin_ += ", ";
}

void JsonStream::open_item(std::string& text) const {
  text += item_begin_;
}

void JsonStream::close_item(std::string& text) const {
  text += style_ == Style::document ? "}" : "}\n";
}

void JsonStream::begin(const Record& head) {
  std::string text = text_of({head, {}}, style_);
  if (style_ == Style::document) {
    text.resize(text.size() - kDocumentEnd.size());
    text += ",\n  ";
    append_json_string(text, section_);
    text += ": [";
  }
  out_.write(text);
}

void JsonStream::write_items(std::string_view items) {
  if (items.empty()) return;
  if (!any_ && style_ == Style::document) items.remove_prefix(1);
  any_ = true;
  out_.write(items);
}

void JsonStream::end(const std::vector<Section>& rest) {
  if (style_ == Style::document) {
    out_.write(any_ ? "\n  ]" : "]");
    if (rest.empty()) return out_.write(kDocumentEnd);
    out_.write(",\n  " + text_of({{}, rest}, style_).substr(kDocumentBegin.size()));
    return;
  }
  const std::string lines = text_of({{}, rest}, style_);
  out_.write(std::string_view(lines).substr(lines.find('\n') + 1));  // skips the head, which begin() wrote
}

}  // namespace attnctl

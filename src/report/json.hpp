#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files/output_file.hpp"
#include "report/ordered_chunks.hpp"
#include "results/results.hpp"

namespace attnctl::report {

/// Writes a document as one JSON object. Each head field, each item of a section and each row of a matrix is
/// on its own line. Numbers that are not finite become null. Tensors and tables are formatted in parallel and
/// written in order; only a few chunks of text are in memory at a time.
void write_json(OutputFile& out, const Document& document, const WriteOptions& options = {});

/// Writes a document as JSON Lines: one line with the head fields, then one line per item of each section.
/// The first field of an item's line is "record", whose value is Section::record. An item that is not a
/// Record is written as the field "value". The output receives only whole lines
/// (OutputFile::write_whole_lines).
void write_jsonl(OutputFile& out, const Document& document, const WriteOptions& options = {});

/// The layout of JSON text: one object (write_json), or JSON Lines (write_jsonl).
enum class JsonLayout { document, lines };

/// Writes the same text as write_json or write_jsonl, but receives the items of one section in several calls,
/// so that the whole section is never in memory. Callers format an item with open_item(), then append its
/// fields, then call close_item(), in any thread. write_items() writes the items in the order of its calls.
class JsonStream {
 public:
  /// `section` is the name of the section that write_items() writes. `record` is the Section::record of this
  /// section.
  JsonStream(OutputFile& out, JsonLayout layout, std::string section, std::string_view record);

  /// Append the opening of an item (everything before its first field) and its closing. In between, the
  /// caller appends the fields as `"name": value`, separated by ", ".
  void open_item(std::string& text) const;
  void close_item(std::string& text) const;

  /// Call begin() once, then write_items() any number of times, then end(). They write the head fields,
  /// items, and the remaining sections.
  void begin(const Record& head);
  void write_items(std::string_view items);
  void end(const std::vector<Section>& rest);

 private:
  OutputFile& out_;
  JsonLayout layout_;
  std::string section_;
  std::string item_begin_;
  bool any_ = false;
};

/// Appends a JSON string with its quotes. The result is always valid UTF-8: each invalid byte becomes U+FFFD.
/// Escapes quotes, backslashes, all control characters (including DEL and C1, so that the output cannot
/// control a terminal), and the JavaScript line ends U+2028 and U+2029.
void append_json_string(std::string& text, std::string_view value);

}  // namespace attnctl::report

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files/output_file.hpp"
#include "report/ordered_chunks.hpp"
#include "results/results.hpp"

namespace attnctl {

/// Writes a document as one JSON object: one line per head field, per item of a section, and per row of a
/// matrix. Numbers that are not finite become null. Tensors and tables are formatted in parallel and written
/// in order; only a few chunks of text are in memory at a time.
void write_json(OutputFile& out, const Document& document, const WriteOptions& options = {});

/// Writes a document as JSON Lines: first a line with the head fields, then one line per item of each
/// section, with "record" (Section::record) as its first field. An item that is not a Record becomes the
/// field "value" of one. Only whole lines are written (OutputFile::write_whole_lines).
void write_jsonl(OutputFile& out, const Document& document, const WriteOptions& options = {});

/// Writes a document like write_json or write_jsonl, but takes the items of one section in parts, so that the
/// section is never in memory as a whole. Callers format an item with open_item(), its fields and
/// close_item(), in any thread. write_items() writes the items in the order of its calls.
class JsonStream {
 public:
  enum class Style { document, lines };

  /// `section` is the name of the streamed section, `record` the name of one of its records
  /// (Section::record).
  JsonStream(OutputFile& out, Style style, std::string section, std::string_view record);

  /// Append the text before the first field of an item and the text after its last field. The caller appends
  /// the fields (`"name": value`, separated by ", ").
  void open_item(std::string& text) const;
  void close_item(std::string& text) const;

  /// Write the head fields, then any number of items, then the remaining sections.
  void begin(const Record& head);
  void write_items(std::string_view items);
  void end(const std::vector<Section>& rest);

 private:
  OutputFile& out_;
  Style style_;
  std::string section_;
  std::string item_begin_;
  bool any_ = false;
};

/// Appends a JSON string with its quotes. The result is valid UTF-8 for any input: each invalid byte becomes
/// U+FFFD. Escapes the quote, the backslash, all control characters (also DEL and C1, so that a printed
/// document cannot control a terminal), and U+2028 and U+2029, which are line ends in JavaScript.
void append_json_string(std::string& text, std::string_view value);

}  // namespace attnctl

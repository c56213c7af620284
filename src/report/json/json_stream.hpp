#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files/output_file.hpp"
#include "results/result.hpp"

namespace attnctl {

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

}  // namespace attnctl

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files/output_file.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Writes a document one of whose sections comes bit by bit and is never held, as write_json or write_jsonl
/// would. Items are made by open_item() and close_item() with fields between them, in any thread, and written
/// in order.
class JsonStream {
 public:
  enum class Style { document, lines };

  /// The section's name and what one of its records is called.
  JsonStream(OutputFile& out, Style style, std::string section, std::string_view record);

  /// Appends what stands before the first field of an item (`"name": value`, with ", " between fields), and
  /// behind the last.
  void open_item(std::string& text) const;
  void close_item(std::string& text) const;

  /// The head fields, then any number of items, then the sections behind.
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

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/json/json_array.hpp"
#include "report/number_format.hpp"
#include "results/result.hpp"

namespace attnctl {

/// A part of the document's text: literal text, then a range of an array's elements or of a table's rows.
struct JsonPiece {
  std::string text;
  const Array* array = nullptr;
  const Table* table = nullptr;
  std::size_t first = 0;
  std::size_t last = 0;
  ArrayLayout layout;
  std::string row_begin;  // for tables: the text before the fields of a row; row_separator goes between rows
  std::string row_separator;
};

/// Splits the text of a document into pieces that can be formatted independently. The pieces refer to the
/// arrays and tables of the document, which must outlive them.
class JsonPlan {
 public:
  explicit JsonPlan(const NumberFormat& format) : format_(format) {}

  /// Adds the document as one JSON object over several lines.
  void add_document(const Document& document);
  /// Adds one line for the head and one line per item of each section.
  void add_lines(const Document& document);
  /// Closes the last piece and returns all pieces. Call it only once.
  [[nodiscard]] std::vector<JsonPiece> finish();

 private:
  void add_value(const Value& value, const ArrayLayout& layout);
  void add_array(const Array& array, const ArrayLayout& layout);
  void add_table(const Table& table, const std::string& row_begin, const std::string& row_separator);
  void add_list(const List& list, const ArrayLayout& layout);
  void add_record(const Record& record, const ArrayLayout& layout);
  void add_fields(const Record& record, const ArrayLayout& layout);
  void add_key(std::string_view key);
  void add_items_by_line(const Value& value);
  void add_item_line(const Value& item, std::string_view record);

  NumberFormat format_;
  std::string text_;  // literal text for the next piece
  std::vector<JsonPiece> pieces_;
};

/// Formats a piece and appends it to `text`.
void append_piece(std::string& text, const NumberFormat& format, const JsonPiece& piece);

}  // namespace attnctl

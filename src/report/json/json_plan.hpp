#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/json/json_array.hpp"
#include "report/number_format.hpp"
#include "results/result.hpp"

namespace attnctl {

/// A stretch of the document: literal text, then a range of an array's elements or of a table's rows.
struct JsonPiece {
  std::string text;
  const Array* array = nullptr;
  const Table* table = nullptr;
  std::size_t first = 0;
  std::size_t last = 0;
  ArrayLayout layout;
  std::string row_begin;  // of a table: what stands before the fields of a row, and between two rows
  std::string row_separator;
};

/// The whole text of a document as pieces, cut so that they can be formatted apart. The arrays and tables are
/// those of the document, which outlives the plan.
class JsonPlan {
 public:
  explicit JsonPlan(const NumberFormat& format) : format_(format) {}

  /// One JSON object over several lines.
  void add_document(const Document& document);
  /// A line for the head and one for each item of each section.
  void add_lines(const Document& document);
  /// Closes the last piece. To be called once.
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
  std::string text_;  // literal text that awaits its piece
  std::vector<JsonPiece> pieces_;
};

/// Appends the text of a piece.
void append_piece(std::string& text, const NumberFormat& format, const JsonPiece& piece);

}  // namespace attnctl

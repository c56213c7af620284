#include "report/json/json_plan.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "report/json/json_text.hpp"

namespace attnctl {
namespace {

// About 400 KB of text: enough work for a task, and small enough to hold one piece per worker in memory.
constexpr std::size_t elements_per_piece = 32768;

constexpr ArrayLayout inline_layout{};
constexpr std::size_t item_indent = 4;

bool is_list_of_records(const Value& value) {
  if (std::holds_alternative<Table>(value.data)) return true;
  const auto* list = std::get_if<List>(&value.data);
  return list != nullptr && !list->empty() &&
         std::holds_alternative<std::shared_ptr<const Record>>(list->front().data);
}

}  // namespace

void JsonPlan::add_key(std::string_view key) {
  append_json_string(text_, key);
  text_ += ": ";
}

void JsonPlan::add_document(const Document& document) {
  constexpr ArrayLayout head_layout{true, 4};
  const char* separator = "{\n  ";
  for (const auto& [name, value] : document.head.fields) {
    text_ += std::exchange(separator, ",\n  ");
    add_key(name);
    if (is_list_of_records(value)) {
      add_items_by_line(value);
    } else {
      add_value(value, head_layout);
    }
  }
  for (const Section& section : document.sections) {
    text_ += std::exchange(separator, ",\n  ");
    add_key(section.name);
    add_items_by_line(section.items);
  }
  text_ += separator == std::string_view("{\n  ") ? "{}\n" : "\n}\n";
}

void JsonPlan::add_items_by_line(const Value& value) {
  constexpr ArrayLayout layout{true, item_indent + 2};
  if (const auto* table = std::get_if<Table>(&value.data)) {
    text_ += '[';
    if (table->rows > 0) {
      text_ += "\n    ";
      add_table(*table, "{", ",\n    ");
      text_ += "\n  ";
    }
    text_ += ']';
    return;
  }
  const auto* list = std::get_if<List>(&value.data);
  if (list == nullptr) return add_value(value, {true, item_indent});
  text_ += '[';
  const char* separator = "\n    ";
  for (const Value& item : *list) {
    text_ += std::exchange(separator, ",\n    ");
    add_value(item, layout);
  }
  text_ += list->empty() ? "]" : "\n  ]";
}

void JsonPlan::add_lines(const Document& document) {
  add_record(document.head, inline_layout);
  text_ += '\n';
  for (const Section& section : document.sections) {
    if (const auto* table = std::get_if<Table>(&section.items.data)) {
      if (table->rows == 0) continue;
      std::string begin = "{\"record\": ";
      append_json_string(begin, section.record);
      if (!table->columns.empty()) begin += ", ";
      add_table(*table, begin, "\n");
      text_ += '\n';
    } else if (const auto* list = std::get_if<List>(&section.items.data)) {
      for (const Value& item : *list) add_item_line(item, section.record);
    } else {
      add_item_line(section.items, section.record);
    }
  }
}

void JsonPlan::add_item_line(const Value& item, std::string_view record) {
  text_ += '{';
  add_key("record");
  append_json_string(text_, record);
  if (const auto* fields = std::get_if<std::shared_ptr<const Record>>(&item.data)) {
    if (!(*fields)->fields.empty()) text_ += ", ";
    add_fields(**fields, inline_layout);
  } else {
    text_ += ", ";
    add_key("value");
    add_value(item, inline_layout);
  }
  text_ += "}\n";
}

void JsonPlan::add_value(const Value& value, const ArrayLayout& layout) {
  std::visit(
      [&](const auto& data) {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, Cell>) {
          append_cell(text_, format_, data);
        } else if constexpr (std::is_same_v<T, Array>) {
          add_array(data, layout);
        } else if constexpr (std::is_same_v<T, Table>) {
          text_ += '[';
          add_table(data, "{", ", ");
          text_ += ']';
        } else if constexpr (std::is_same_v<T, List>) {
          add_list(data, layout);
        } else {
          add_record(*data, layout);
        }
      },
      value.data);
}

void JsonPlan::add_list(const List& list, const ArrayLayout& layout) {
  const char* separator = "";
  text_ += '[';
  for (const Value& item : list) {
    text_ += std::exchange(separator, ", ");
    add_value(item, layout);
  }
  text_ += ']';
}

void JsonPlan::add_record(const Record& record, const ArrayLayout& layout) {
  text_ += '{';
  add_fields(record, layout);
  text_ += '}';
}

void JsonPlan::add_fields(const Record& record, const ArrayLayout& layout) {
  const char* separator = "";
  for (const auto& [name, value] : record.fields) {
    text_ += std::exchange(separator, ", ");
    add_key(name);
    add_value(value, layout);
  }
}

void JsonPlan::add_array(const Array& array, const ArrayLayout& layout) {
  const std::size_t size = array.size();
  if (size == 0) return append_empty_array(text_, array.shape);
  if (array.shape.empty()) {
    std::visit([&](const auto& values) { append_cell(text_, format_, Cell(values.front())); }, array.values);
    return;
  }
  const ArrayLayout own{layout.lines && array.shape.size() > 1, layout.indent};
  text_ += '[';
  for (std::size_t first = 0; first < size; first += elements_per_piece) {
    JsonPiece piece;
    piece.text = std::exchange(text_, {});
    piece.array = &array;
    piece.first = first;
    piece.last = std::min(size, first + elements_per_piece);
    piece.layout = own;
    pieces_.push_back(std::move(piece));
  }
  if (own.lines) {
    text_ += '\n';
    text_.append(own.indent - 2, ' ');
  }
  text_ += ']';
}

void JsonPlan::add_table(const Table& table, const std::string& row_begin, const std::string& row_separator) {
  const std::size_t columns = std::max<std::size_t>(table.columns.size(), 1);
  const std::size_t rows_per_piece = std::max<std::size_t>(elements_per_piece / columns, 1);
  for (std::size_t first = 0; first < table.rows; first += rows_per_piece) {
    JsonPiece piece;
    piece.text = std::exchange(text_, {});
    piece.table = &table;
    piece.first = first;
    piece.last = std::min(table.rows, first + rows_per_piece);
    piece.row_begin = row_begin;
    piece.row_separator = row_separator;
    pieces_.push_back(std::move(piece));
  }
}

std::vector<JsonPiece> JsonPlan::finish() {
  if (!text_.empty()) {
    pieces_.emplace_back();
    pieces_.back().text = std::move(text_);
  }
  return std::move(pieces_);
}

namespace {

void append_rows(std::string& text, const NumberFormat& format, const JsonPiece& piece) {
  const Table& table = *piece.table;
  std::vector<std::string> keys;
  for (const std::string& column : table.columns) {
    std::string& key = keys.emplace_back(keys.empty() ? "" : ", ");
    append_json_string(key, column);
    key += ": ";
  }
  std::vector<Cell> cells(keys.size());
  for (std::size_t row = piece.first; row < piece.last; ++row) {
    if (row > 0) text += piece.row_separator;
    text += piece.row_begin;
    table.row(row, cells);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      text += keys[i];
      append_cell(text, format, cells[i]);
    }
    text += '}';
  }
}

}  // namespace

void append_piece(std::string& text, const NumberFormat& format, const JsonPiece& piece) {
  text += piece.text;
  if (piece.array != nullptr) {
    append_array_range(text, format, *piece.array, piece.layout, piece.first, piece.last);
  } else if (piece.table != nullptr) {
    append_rows(text, format, piece);
  }
}

}  // namespace attnctl

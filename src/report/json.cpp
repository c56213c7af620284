#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "report/writers.hpp"

namespace attnctl::report {
namespace {

/// Writes a number or null at `to`, which must have space for NumberFormat::kMostCharacters.
template <typename T>
char* write_number(char* to, const NumberFormat& format, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return std::ranges::copy(std::string_view("null"), to).out;
  }
  return format.write(to, value);
}

/// Returns the number of JSON lists that begin at a row of the array. A row is an innermost list. The row
/// itself is counted, the outermost list is not. lists_at(shape, row + 1) is also the number of lists that
/// end after `row`.
std::size_t lists_at(const Shape& shape, std::size_t row) {
  std::size_t lists = 0;
  std::size_t rows = 1;  // number of rows in one list with the elements of axis d
  for (std::size_t d = shape.size() - 1; d > 0; --d) {
    if (row % rows != 0) break;
    ++lists;
    rows *= shape[d - 1];
  }
  return lists;
}

/// Appends a part of a row. Formats the numbers in a small buffer that stays in the cache.
template <typename T>
void append_numbers(std::string& text, const NumberFormat& format, std::span<const T> values) {
  constexpr std::size_t space = 8192;
  char buffer[space];
  char* end = buffer;
  for (const T value : values) {
    if (end > buffer + space - NumberFormat::kMostCharacters - 1) {
      text += std::string_view(buffer, end);
      end = buffer;
    }
    end = write_number(end, format, value);
    *end++ = ',';
  }
  text += std::string_view(buffer, end - 1);  // omits the last comma
}

/// Appends the elements first to last - 1 of a packed tensor as nested JSON lists with their commas, without
/// the outermost brackets. Calls for consecutive ranges append the whole tensor. The tensor must have at
/// least one dimension and no extent of 0.
template <typename T>
void append_range(std::string& text, const NumberFormat& format, std::span<const T> values,
                  const Shape& shape, std::size_t indent, std::size_t first, std::size_t last) {
  const std::size_t columns = shape.back();
  while (first < last) {
    const std::size_t row = first / columns;
    const std::size_t row_end = (row + 1) * columns;
    if (first > 0) text += ',';
    if (first % columns == 0) {
      if (indent > 0) text.append(1, '\n').append(indent, ' ');  // each row is on its own line
      text.append(lists_at(shape, row), '[');
    }
    const std::size_t end = std::min(last, row_end);
    append_numbers(text, format, values.subspan(first, end - first));
    if (end == row_end) text.append(lists_at(shape, row + 1), ']');
    first = end;
  }
}

/// Appends a tensor without elements: "[]", or "[[],[]]" for the shape [2, 0].
void append_empty_array(std::string& text, const Shape& shape, std::size_t dimension = 0) {
  text += '[';
  for (std::size_t i = 0; dimension < shape.size() && i < shape[dimension]; ++i) {
    if (i > 0) text += ',';
    append_empty_array(text, shape, dimension + 1);
  }
  text += ']';
}

/// Appends a cell. Undefined cells and numbers that are not finite become null.
void append_cell(std::string& text, const NumberFormat& format, const Cell& cell) {
  std::visit(
      Overloaded{[&](std::monostate) { text += "null"; }, [&](bool flag) { text += flag ? "true" : "false"; },
                 [&](const std::string& value) { append_json_string(text, value); },
                 [&](auto number) {
                   char buffer[NumberFormat::kMostCharacters];
                   text += std::string_view(buffer, write_number(buffer, format, number));
                 }},
      cell);
}

// Largest number of elements in a piece. They have about 400 KB of text: enough work for a task, and small
// enough to keep one piece per worker in memory.
constexpr std::size_t kElementsPerPiece = 32768;

bool is_list_of_records(const Value& value) {
  if (std::holds_alternative<Table>(value.data)) return true;
  const auto* list = std::get_if<List>(&value.data);
  return list != nullptr && !list->empty() &&
         std::holds_alternative<std::shared_ptr<const Record>>(list->front().data);
}

/// The text between the rows of a table, and the text before the fields of a row.
struct RowStyle {
  std::string separator, begin;
};

void append_rows(std::string& text, const NumberFormat& format, const Table& table, const RowStyle& style,
                 std::size_t first, std::size_t last) {
  std::vector<std::string> keys;
  for (const std::string& column : table.columns) {
    std::string& key = keys.emplace_back(keys.empty() ? "" : ", ");
    append_json_string(key, column);
    key += ": ";
  }
  std::vector<Cell> cells(keys.size());
  for (std::size_t row = first; row < last; ++row) {
    if (row > 0) text += style.separator;
    text += style.begin;
    table.row(row, cells);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      text += keys[i];
      append_cell(text, format, cells[i]);
    }
    text += '}';
  }
}

/// Splits the text of a document into tasks that can be formatted separately. They refer to tensors and
/// tables of the document, so the document must outlive the plan.
class JsonPlan {
 public:
  JsonPlan(const Document& document, JsonLayout layout, const NumberFormat& format) : format_(format) {
    layout == JsonLayout::document ? add_document(document) : add_lines(document);
    end_piece(0, [](std::string&) {});
  }

  [[nodiscard]] std::size_t tasks() const { return tasks_.size(); }
  void append(std::string& text, std::size_t task) const {
    for (const auto& [begin, append_elements] : tasks_[task]) {
      text += begin;
      append_elements(text);
    }
  }

 private:
  void add_document(const Document& document) {
    const char* separator = "{\n  ";
    for (const auto& [name, value] : document.head.fields) {
      text_ += std::exchange(separator, ",\n  ");
      add_key(name);
      is_list_of_records(value) ? add_items_by_line(value) : add_value(value, 4);
    }
    for (const Section& section : document.sections) {
      text_ += std::exchange(separator, ",\n  ");
      add_key(section.name);
      add_items_by_line(section.items);
    }
    text_ += separator == std::string_view("{\n  ") ? "{}\n" : "\n}\n";
  }

  void add_lines(const Document& document) {
    add_record(document.head, 0);
    text_ += '\n';
    for (const Section& section : document.sections) {
      if (const auto* table = std::get_if<Table>(&section.items.data)) {
        if (table->rows == 0) continue;
        std::string begin = "{\"record\": ";
        append_json_string(begin, section.record);
        if (!table->columns.empty()) begin += ", ";
        add_table(*table, {"\n", begin});
        text_ += '\n';
      } else if (const auto* list = std::get_if<List>(&section.items.data)) {
        for (const Value& item : *list) add_item_line(item, section.record);
      } else {
        add_item_line(section.items, section.record);
      }
    }
  }

  /// Ends a piece with the text of elements. Many small pieces share a task.
  void end_piece(std::size_t elements, std::function<void(std::string& text)> append_elements) {
    work_ += text_.size() / 64 + elements;
    tasks_.back().emplace_back(std::exchange(text_, {}), std::move(append_elements));
    if (work_ < kElementsPerPiece) return;
    tasks_.emplace_back();
    work_ = 0;
  }

  void add_key(std::string_view key) {
    append_json_string(text_, key);
    text_ += ": ";
  }

  void add_items_by_line(const Value& value) {
    const auto* table = std::get_if<Table>(&value.data);
    const auto* list = std::get_if<List>(&value.data);
    if (table == nullptr && list == nullptr) return add_value(value, 4);
    const bool empty = table != nullptr ? table->rows == 0 : list->empty();
    text_ += empty ? "[" : "[\n    ";
    table != nullptr ? add_table(*table, {",\n    ", "{"}) : add_list(*list, ",\n    ", 6);
    text_ += empty ? "]" : "\n  ]";
  }

  void add_item_line(const Value& item, std::string_view record) {
    text_ += '{';
    add_key("record");
    append_json_string(text_, record);
    if (const auto* fields = std::get_if<std::shared_ptr<const Record>>(&item.data)) {
      if (!(*fields)->fields.empty()) text_ += ", ";
      add_fields(**fields, 0);
    } else {
      text_ += ", ";
      add_key("value");
      add_value(item, 0);
    }
    text_ += "}\n";
  }

  /// Adds a value. `indent` is the indentation of the rows of a matrix; 0 writes the matrix on one line.
  void add_value(const Value& value, std::size_t indent) {
    const bool list = std::holds_alternative<Table>(value.data) || std::holds_alternative<List>(value.data);
    if (list) text_ += '[';
    std::visit(Overloaded{[&](const Cell& cell) { append_cell(text_, format_, cell); },
                          [&](const Tensor& tensor) { add_tensor(tensor, indent); },
                          [&](const Table& table) {
                            add_table(table, {", ", "{"});
                          },
                          [&](const List& items) { add_list(items, ", ", indent); },
                          [&](const std::shared_ptr<const Record>& record) { add_record(*record, indent); }},
               value.data);
    if (list) text_ += ']';
  }

  void add_list(const List& list, const char* separator, std::size_t indent) {
    for (const Value& item : list) {
      if (&item != list.data()) text_ += separator;
      add_value(item, indent);
    }
  }

  void add_record(const Record& record, std::size_t indent) {
    text_ += '{';
    add_fields(record, indent);
    text_ += '}';
  }

  void add_fields(const Record& record, std::size_t indent) {
    const char* separator = "";
    for (const auto& [name, value] : record.fields) {
      text_ += std::exchange(separator, ", ");
      add_key(name);
      add_value(value, indent);
    }
  }

  void add_tensor(const Tensor& tensor, std::size_t indent) {
    const std::size_t size = tensor.size();
    if (size == 0) return append_empty_array(text_, tensor.shape);
    if (tensor.shape.empty()) {
      std::visit([&](const auto& values) { append_cell(text_, format_, Cell(values.front())); },
                 tensor.values);
      return;
    }
    if (tensor.shape.size() == 1) indent = 0;
    text_ += '[';
    for (std::size_t first = 0; first < size; first += kElementsPerPiece) {
      const std::size_t last = std::min(size, first + kElementsPerPiece);
      end_piece(last - first, [format = format_, &tensor, indent, first, last](std::string& text) {
        const auto append_values = [&](const auto& values) {
          append_range(text, format, values, tensor.shape, indent, first, last);
        };
        std::visit(append_values, tensor.values);
      });
    }
    if (indent > 0) {
      text_ += '\n';
      text_.append(indent - 2, ' ');
    }
    text_ += ']';
  }

  void add_table(const Table& table, const RowStyle& style) {
    const std::size_t columns = std::max<std::size_t>(table.columns.size(), 1);
    const std::size_t rows_per_piece = std::max<std::size_t>(kElementsPerPiece / columns, 1);
    for (std::size_t first = 0; first < table.rows; first += rows_per_piece) {
      const std::size_t last = std::min(table.rows, first + rows_per_piece);
      const auto append = [format = format_, &table, style, first, last](std::string& text) {
        append_rows(text, format, table, style, first, last);
      };
      end_piece((last - first) * table.columns.size(), append);
    }
  }

  NumberFormat format_;
  std::string text_;      // text that will begin the next piece
  std::size_t work_ = 0;  // about the number of elements of the last task
  /// The pieces of each task: some text, then a range of a tensor's elements or of a table's rows.
  std::vector<std::vector<std::pair<std::string, std::function<void(std::string& text)>>>> tasks_{1};
};

std::string text_of(const Document& document, JsonLayout layout) {
  std::string text;
  const JsonPlan plan(document, layout, {});
  for (std::size_t task = 0; task < plan.tasks(); ++task) plan.append(text, task);
  return text;
}

bool is_plain(char c) {
  return c >= ' ' && c < '\x7F' && c != '"' && c != '\\';
}

bool needs_escape(char32_t point) {
  return point < 0x20 || point == '"' || point == '\\' || (point >= 0x7F && point < 0xA0) ||
         point == 0x2028 || point == 0x2029;
}

void append_escape(std::string& text, char32_t point) {
  // Pairs: a character and the letter of its escape.
  constexpr std::string_view short_escapes = "\"\"\\\\\nn\rr\tt";
  for (std::size_t i = 0; i < short_escapes.size(); i += 2) {
    if (point != static_cast<unsigned char>(short_escapes[i])) continue;
    text += '\\';
    text += short_escapes[i + 1];
    return;
  }
  fmt::format_to(std::back_inserter(text), "\\u{:04x}", static_cast<unsigned>(point));
}

}  // namespace

void write_json(OutputFile& out, const Document& document, const WriteOptions& options) {
  const JsonPlan plan(document, options.layout, options.number);
  const auto format = [&](std::size_t task, std::string& text) { plan.append(text, task); };
  if (options.layout == JsonLayout::lines) out.write_whole_lines();
  write_in_order(options.pool, plan.tasks(), format, [&](const std::string& text) { out.write(text); });
}

JsonStream::JsonStream(OutputFile& out, JsonLayout layout, std::string section, std::string_view record)
    : out_(out), layout_(layout), section_(std::move(section)) {
  if (layout == JsonLayout::document) {
    item_begin_ = ",\n    {";  // write_items() removes the comma of the first item
    return;
  }
  out.write_whole_lines();
  item_begin_ = "{\"record\": ";
  append_json_string(item_begin_, record);
  item_begin_ += ", ";
}

void JsonStream::begin(const Record& head) {
  std::string text = text_of({head, {{section_, {}, List()}}}, layout_);
  if (layout_ == JsonLayout::document) text.resize(text.rfind(']'));  // leaves the section open
  out_.write(text);
}

void JsonStream::write_items(std::string_view items) {
  if (items.empty()) return;
  if (!any_ && layout_ == JsonLayout::document) items.remove_prefix(1);
  any_ = true;
  out_.write(items);
}

void JsonStream::end(const Section& last) {
  const std::string text = text_of({{}, {last}}, layout_);
  // Skips the head, which begin() has written.
  if (layout_ == JsonLayout::lines) return out_.write(text.substr(text.find('\n') + 1));
  out_.write((any_ ? "\n  ]," : "],") + text.substr(1));
}

std::string json_text(const Record& record) {
  std::string text = text_of({record, {}}, JsonLayout::lines);
  text.pop_back();  // the line end
  return text;
}

void append_json_string(std::string& text, std::string_view value) {
  text += '"';
  while (true) {
    const auto plain = std::ranges::find_if_not(value, is_plain) - value.begin();
    text += value.substr(0, static_cast<std::size_t>(plain));
    value.remove_prefix(static_cast<std::size_t>(plain));
    if (value.empty()) break;
    const std::size_t length = utf8_sequence_length(value);
    const std::string_view sequence = value.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0) {
      text += "\xEF\xBF\xBD";
    } else if (const char32_t point = utf8_code_point(sequence); needs_escape(point)) {
      append_escape(text, point);
    } else {
      text += sequence;
    }
    value.remove_prefix(sequence.size());
  }
  text += '"';
}

}  // namespace attnctl::report

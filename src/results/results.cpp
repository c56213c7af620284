#include "results/results.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace attnctl {
namespace {

constexpr std::array kKeys = {
    Definition{"component", "", "enc, dec or cross", "",
               "part of an encoder-decoder model: encoder, decoder or cross-attention; empty in other models",
               ""},
    Definition{"layer", "", "from 0", "", "number of the layer in its component", ""},
    Definition{"head", "", "from 0", "", "number of the head in its layer; in text the name of the head", ""},
    Definition{"name", "", "", "",
               "name of the head: [component.]layer.head, such as 3.1 or enc.3.1; a text: 0.1 and 0.10 are "
               "two heads"},
    Definition{"kv_head", "", "from 0", "", "number of the key-value head that the head uses", ""},
    Definition{"input", "", "", "", "id of the input; without an id, its number from 0", ""},
    Definition{"position", "", "from 0", "", "position of the token in its input", ""},
    Definition{"circuit", "", "qk or ov", "", "circuit of a head: QK = W_Q W_K^T or OV = W_V W_O"},
    Definition{"dimension", "", "from 0", "", "number of an element in its vector"},
    Definition{"token", "", "", "", "the token as the tokenizer writes it", ""},
    Definition{"rows", "", "[0, inf)", "", "number of query rows that have a visible key"},
    Definition{"query", "", "from 0", "", "position of the query"},
    Definition{"key", "", "from 0", "", "position of the key"},
    Definition{"query_token", "", "", "", "the token of the query"},
    Definition{"key_token", "", "", "", "the token of the key"},
    Definition{"layer_a", "", "from 0", "", "number of the layer of the first head of a pair"},
    Definition{"head_a", "", "from 0", "", "number of the first head of a pair in its layer"},
    Definition{"name_a", "", "", "", "name of the first head of a pair"},
    Definition{"layer_b", "", "from 0", "", "number of the layer of the second head of a pair"},
    Definition{"head_b", "", "from 0", "", "number of the second head of a pair in its layer"},
    Definition{"name_b", "", "", "", "name of the second head of a pair"},
    Definition{"model", "", "", "", "path of the model"},
};

/// The sort key of a cell. In ascending order, numbers and booleans sort by value, and before texts.
/// Undefined cells and NaN have no key.
using SortKey = std::optional<std::variant<double, std::string>>;

SortKey key_of(const Cell& cell) {
  return std::visit(Overloaded{[](std::monostate) { return SortKey(); },
                               [](const std::string& text) { return SortKey(text); },
                               [](auto value) {
                                 const auto number = static_cast<double>(value);
                                 return std::isnan(number) ? SortKey() : SortKey(number);
                               }},
                    cell);
}

/// Returns the index of a column. Throws Error(usage), which lists all columns, if there is none.
std::size_t column_named(const Table& table, const std::string& name, const char* option) {
  if (const auto index = table.find(name)) return *index;
  fail(Status::usage, "{} {}: the table has no such column{}; it has {}", option, escaped(name),
       did_you_mean(name, table.columns, &Column::name), join_texts(table.columns, &Column::name));
}

/// Returns the indices of the rows in descending order of a column.
std::vector<std::size_t> sorted_rows(const Table& table, std::size_t column) {
  std::vector<SortKey> keys(table.rows);
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    keys[row] = key_of(cells[column]);
  }
  std::vector<std::size_t> rows(table.rows);
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, [&](std::size_t a, std::size_t b) { return keys[b] < keys[a]; });
  return rows;
}

std::uint64_t count_in(std::span<const std::int64_t> /*values*/, bool /*hidden_is_minus_infinity*/) {
  return 0;
}
template <std::floating_point T>
std::uint64_t count_in(std::span<const T> values, bool hidden_is_minus_infinity) {
  bool finite = true;  // no early exit, so that the loop is vectorised
  for (const T value : values) finite &= std::abs(value) <= std::numeric_limits<T>::max();
  if (finite) return 0;
  return static_cast<std::uint64_t>(std::ranges::count_if(values, [&](T value) {
    const bool hidden = hidden_is_minus_infinity && value == -std::numeric_limits<T>::infinity();
    return is_non_finite(value) && !hidden;
  }));
}

template <typename T>
void move_to_end(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

/// Returns the item with this name. Throws Error(usage), which lists all names, if there is none.
template <typename T>
const T& item_named(const std::vector<T>& items, const std::string& name, const char* option) {
  const auto found = std::ranges::find(items, name, &T::name);
  if (found != items.end()) return *found;
  fail(Status::usage, "{}: unsupported \"{}\"{}; this run has {}", option, escaped(name),
       did_you_mean(name, items, &T::name), join_texts(items, &T::name));
}

}  // namespace

std::span<const Definition> key_definitions() {
  return kKeys;
}

std::vector<Column> columns_of(std::span<const Definition> definitions,
                               std::initializer_list<std::string_view> names) {
  std::vector<Column> columns;
  for (const std::string_view name : names) {
    auto found = std::ranges::find(definitions, name, &Definition::name);
    if (found == definitions.end()) {
      found = std::ranges::find(key_definitions(), name, &Definition::name);
      if (found == key_definitions().end())
        throw std::invalid_argument(fmt::format("the column {} has no definition", name));
    }
    columns.emplace_back(*found);
  }
  return columns;
}

double number_of(const Cell& cell) {
  return std::visit(Overloaded{[](std::monostate) { return kUndefined; },
                               [](const std::string& /*text*/) { return kUndefined; },
                               [](auto number) { return static_cast<double>(number); }},
                    cell);
}

std::optional<std::size_t> Table::find(std::string_view column) const {
  const auto found = std::ranges::find(columns, column, &Column::name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

Table make_table(std::string name, std::vector<Column> columns, std::vector<std::vector<Cell>> rows) {
  for (const std::vector<Cell>& row : rows) {
    if (row.size() != columns.size()) {
      throw std::invalid_argument(
          fmt::format("a row of {} cells in the table {} of {} columns", row.size(), name, columns.size()));
    }
  }
  const std::size_t count = rows.size();
  const auto held = std::make_shared<const std::vector<std::vector<Cell>>>(std::move(rows));
  return {std::move(name), std::move(columns), count, [held](std::size_t index, std::span<Cell> cells) {
            std::ranges::copy(held->at(index), cells.begin());
          }};
}

Table select_rows(const Table& table, const std::string& sort, std::optional<std::size_t> top) {
  Table selected = table;
  selected.rows = std::min(table.rows, top.value_or(table.rows));
  if (sort.empty()) return selected;
  const auto rows = std::make_shared<const std::vector<std::size_t>>(
      sorted_rows(table, column_named(table, sort, "--sort")));
  selected.row = [rows, row = table.row](std::size_t index, std::span<Cell> cells) {
    row((*rows)[index], cells);
  };
  return selected;
}

Table select_columns(const Table& table, const std::vector<std::string>& columns) {
  Table selected{table.name, {}, table.rows, {}};
  std::vector<std::size_t> indices;  // of the selected columns in the table
  for (const std::string& name : columns) {
    indices.push_back(column_named(table, name, "--columns"));
    selected.columns.push_back(table.columns[indices.back()]);
  }
  selected.row = [indices, row = table.row, count = table.columns.size()](std::size_t number,
                                                                          std::span<Cell> cells) {
    std::vector<Cell> all(count);
    row(number, all);
    for (std::size_t i = 0; i < indices.size(); ++i) cells[i] = std::move(all[indices[i]]);
  };
  return selected;
}

std::size_t Tensor::size() const {
  return std::visit([](const auto& span) { return span.size(); }, values);
}

double Tensor::at(std::size_t index) const {
  return std::visit([index](const auto& span) { return static_cast<double>(span[index]); }, values);
}

template <typename T>
Tensor make_tensor(Shape shape, std::vector<T> values) {
  if (checked_product(shape) != values.size()) {
    throw std::invalid_argument(
        fmt::format("a tensor with {} values and the shape {}", values.size(), to_string(shape)));
  }
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {std::move(shape), std::span<const T>(*owner), owner};
}
template Tensor make_tensor(Shape, std::vector<float>);
template Tensor make_tensor(Shape, std::vector<double>);
template Tensor make_tensor(Shape, std::vector<std::int64_t>);

Value::Value(Record record) : data(std::make_shared<const Record>(std::move(record))) {}

std::uint64_t count_non_finite(const Value& value) {
  std::uint64_t count = 0;
  std::visit(Overloaded{[&](const List& list) {
                          for (const Value& item : list) count += count_non_finite(item);
                        },
                        [&](const std::shared_ptr<const Record>& record) {
                          for (const auto& [name, field] : record->fields) count += count_non_finite(field);
                        },
                        [&](const auto& data) { count = count_non_finite(data); }},
             value.data);
  return count;
}

std::uint64_t count_non_finite(const Table& table) {
  std::uint64_t count = 0;
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    for (const Cell& cell : cells) count += count_non_finite(cell);
  }
  return count;
}

std::uint64_t count_non_finite(const Tensor& tensor) {
  return std::visit([](const auto& values) { return count_in(values, false); }, tensor.values);
}

std::uint64_t count_non_finite(const Cell& cell) {
  return std::visit(
      [](const auto& value) -> std::uint64_t {
        if constexpr (std::is_floating_point_v<std::decay_t<decltype(value)>>) return is_non_finite(value);
        return 0;
      },
      cell);
}

std::uint64_t count_non_finite(std::span<const float> values, bool hidden_is_minus_infinity) {
  return count_in(values, hidden_is_minus_infinity);
}

void HeatmapPage::fit_scale(bool may_be_logarithmic) {
  std::vector<double> sizes;  // finite magnitudes above 0
  for (const Heatmap& heatmap : heatmaps) {
    for (std::size_t i = 0; i < heatmap.values.size(); ++i) {
      const double size = std::abs(heatmap.values.at(i));
      if (size > 0 && std::isfinite(size)) sizes.push_back(size);
    }
  }
  std::ranges::sort(sizes);
  scale.high = sizes.empty() ? 1 : sizes.back();
  scale.low = scale.diverging ? -scale.high : 0;
  scale.logarithmic = may_be_logarithmic && !sizes.empty() && sizes[sizes.size() / 2] < scale.high / 10;
  if (scale.logarithmic) scale.low = std::max(sizes.front() / 2, scale.high / 1000);  // not white, as 0 is
}

void Results::append(Results&& other) {
  move_to_end(document.head.fields, std::move(other.document.head.fields));
  move_to_end(document.sections, std::move(other.document.sections));
  move_to_end(tables, std::move(other.tables));
  move_to_end(arrays, std::move(other.arrays));
  move_to_end(text, std::move(other.text));
  move_to_end(pictures, std::move(other.pictures));
  move_to_end(attention, std::move(other.attention));
  move_to_end(subtitle, std::move(other.subtitle));
  if (picture_hint.empty()) picture_hint = std::move(other.picture_hint);
}

const Table& table_named(const Results& results, const std::string& name) {
  return item_named(results.tables, name, "--table");
}

const View& view_named(const Results& results, const std::string& name) {
  if (results.pictures.empty()) {
    fail(Status::usage, "this run has no picture{}",
         results.picture_hint.empty() ? "; use text, json or csv" : "; " + results.picture_hint);
  }
  return name.empty() ? results.pictures.front() : item_named(results.pictures, name, "--picture");
}

Record warning_record(const Warning& warning) {
  return Record()
      .set("code", warning.code)
      .set("message", warning.message)
      .set("count", static_cast<std::size_t>(warning.count));
}

}  // namespace attnctl

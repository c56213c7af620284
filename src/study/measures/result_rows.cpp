#include "study/measures/result_rows.hpp"

#include <algorithm>
#include <memory>
#include <span>

#include <fmt/format.h>

namespace attnctl {
namespace {

template <typename T>
const T* get(const ResultField& field) {
  return std::get_if<T>(&field.second);
}

Value json_value(const ResultField& field, const StudyShape& shape) {
  if (const auto* cell = get<Cell>(field)) return *cell;
  if (const auto* head = get<RowHead>(field))
    return head->number ? Value(shape.heads.at(*head->number).name) : Value();
  const auto& interval = *get<std::optional<ConfidenceInterval>>(field);
  if (!interval) return {};
  return List{real_cell(interval->low), real_cell(interval->high)};
}

void append_cells(const ResultField& field, const StudyShape& shape, std::vector<Cell>& cells) {
  if (const auto* cell = get<Cell>(field)) {
    cells.push_back(*cell);
  } else if (const auto* head = get<RowHead>(field)) {
    const std::vector<Cell> placed =
        head->number ? shape.head_cells(*head->number) : std::vector<Cell>(StudyShape::head_columns().size());
    cells.insert(cells.end(), placed.begin(), placed.end());
  } else {
    const auto& interval = *get<std::optional<ConfidenceInterval>>(field);
    cells.push_back(interval ? real_cell(interval->low) : Cell());
    cells.push_back(interval ? real_cell(interval->high) : Cell());
  }
}

std::vector<std::string> columns_of(const ResultRow& row) {
  std::vector<std::string> columns;
  for (const ResultField& field : row) {
    if (get<RowHead>(field) != nullptr) {
      const std::vector<std::string> placed = StudyShape::head_columns();
      columns.insert(columns.end(), placed.begin(), placed.end());
    } else if (get<std::optional<ConfidenceInterval>>(field) != nullptr) {
      columns.push_back(field.first + "_low");
      columns.push_back(field.first + "_high");
    } else {
      columns.push_back(field.first);
    }
  }
  return columns;
}

Section section_of(std::string name, std::string record, const StudyShape& shape,
                   const std::vector<ResultRow>& rows) {
  List items;
  for (const ResultRow& row : rows) {
    Record item;
    for (const ResultField& field : row) item.set(field.first, json_value(field, shape));
    items.emplace_back(std::move(item));
  }
  return {std::move(name), std::move(record), std::move(items)};
}

/// Returns a table whose cells are generated when they are written.
Table table_of(std::string name, const StudyShape& shape, std::vector<ResultRow> rows) {
  std::vector<std::string> columns = rows.empty() ? std::vector<std::string>{} : columns_of(rows.front());
  const auto shared = std::make_shared<const std::vector<ResultRow>>(std::move(rows));
  const auto fill = [&shape, shared](std::size_t index, std::span<Cell> cells) {
    std::vector<Cell> made;
    for (const ResultField& field : shared->at(index)) append_cells(field, shape, made);
    std::ranges::move(made, cells.begin());
  };
  return {std::move(name), {columns.begin(), columns.end()}, shared->size(), fill};
}

}  // namespace

void add_rows(StudyResults& results, const StudyShape& shape, const std::string& name, std::string record,
              std::vector<ResultRow> rows) {
  results.document.sections.push_back(section_of(name, std::move(record), shape, rows));
  results.tables.push_back(table_of(name, shape, std::move(rows)));
}

Cell score_text(const std::optional<double>& share, const std::optional<ConfidenceInterval>& interval) {
  if (!share) return {};
  if (!interval) return fmt::format("{:.3f}", *share);
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", *share, interval->low, interval->high);
}

}  // namespace attnctl

#include "study/measures/score_table.hpp"

#include <fmt/format.h>

namespace attnctl {
namespace {

template <typename T>
const T* get(const ScoreField& field) {
  return std::get_if<T>(&field.second);
}

Value json_value(const ScoreField& field, const StudyShape& shape) {
  if (const auto* cell = get<Cell>(field)) return *cell;
  if (const auto* head = get<ScoredHead>(field))
    return head->number ? Value(shape.heads.at(*head->number).name) : Value();
  const Interval& interval = *get<Interval>(field);
  if (!interval) return {};
  return List{real_cell(interval->first), real_cell(interval->second)};
}

void append_cells(const ScoreField& field, const StudyShape& shape, std::vector<Cell>& cells) {
  if (const auto* cell = get<Cell>(field)) {
    cells.push_back(*cell);
  } else if (const auto* head = get<ScoredHead>(field)) {
    const std::vector<Cell> placed =
        head->number ? shape.head_cells(*head->number) : std::vector<Cell>(StudyShape::head_columns().size());
    cells.insert(cells.end(), placed.begin(), placed.end());
  } else {
    const Interval& interval = *get<Interval>(field);
    cells.push_back(interval ? real_cell(interval->first) : Cell());
    cells.push_back(interval ? real_cell(interval->second) : Cell());
  }
}

std::vector<std::string> columns_of(const ScoreRow& row) {
  std::vector<std::string> columns;
  for (const ScoreField& field : row) {
    if (get<ScoredHead>(field) != nullptr) {
      const std::vector<std::string> placed = StudyShape::head_columns();
      columns.insert(columns.end(), placed.begin(), placed.end());
    } else if (get<Interval>(field) != nullptr) {
      columns.push_back(field.first + "_low");
      columns.push_back(field.first + "_high");
    } else {
      columns.push_back(field.first);
    }
  }
  return columns;
}

}  // namespace

Section score_section(std::string name, std::string record, const StudyShape& shape,
                      const std::vector<ScoreRow>& rows) {
  List items;
  for (const ScoreRow& row : rows) {
    Record item;
    for (const ScoreField& field : row) item.set(field.first, json_value(field, shape));
    items.emplace_back(std::move(item));
  }
  return {std::move(name), std::move(record), std::move(items)};
}

Table score_table(std::string name, const StudyShape& shape, const std::vector<ScoreRow>& rows) {
  std::vector<std::vector<Cell>> cells;
  for (const ScoreRow& row : rows) {
    cells.emplace_back();
    for (const ScoreField& field : row) append_cells(field, shape, cells.back());
  }
  return make_table(std::move(name), rows.empty() ? std::vector<std::string>{} : columns_of(rows.front()),
                    std::move(cells));
}

std::optional<ConfidenceInterval> confidence(const Interval& interval) {
  if (!interval) return std::nullopt;
  return ConfidenceInterval{interval->first, interval->second};
}

Cell score_text(const std::optional<double>& share, const Interval& interval) {
  if (!share) return {};
  if (!interval) return fmt::format("{:.3f}", *share);
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", *share, interval->first, interval->second);
}

}  // namespace attnctl

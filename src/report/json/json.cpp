#include "report/json/json.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "report/json/json_plan.hpp"
#include "report/ordered_chunks.hpp"

namespace attnctl {
namespace {

/// Pieces begin[i]..begin[i + 1] are formatted as one task: many small ones together, large ones alone.
std::vector<std::size_t> group_pieces(const std::vector<JsonPiece>& pieces) {
  constexpr std::size_t enough = 32768;
  std::vector<std::size_t> begins{0};
  std::size_t work = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const JsonPiece& piece = pieces[i];
    const std::size_t columns = piece.table != nullptr ? piece.table->columns.size() : 1;
    work += piece.text.size() / 64 + (piece.last - piece.first) * columns;
    if (work < enough && i + 1 < pieces.size()) continue;
    begins.push_back(i + 1);
    work = 0;
  }
  return begins;
}

void write_pieces(OutputFile& out, const std::vector<JsonPiece>& pieces, const WriteOptions& options) {
  const std::vector<std::size_t> begins = group_pieces(pieces);
  const auto format = [&](std::size_t chunk, std::string& text) {
    for (std::size_t i = begins[chunk]; i < begins[chunk + 1]; ++i) {
      append_piece(text, options.number, pieces[i]);
    }
  };
  write_in_order(options.pool, begins.size() - 1, format, [&](const std::string& text) { out.write(text); });
}

/// What both counts below ask of every leaf of a document.
struct Counter {
  std::uint64_t (*of_cell)(const Cell&);
  std::uint64_t (*of_array)(const Array&);
  std::uint64_t (*of_table)(const Table&);

  [[nodiscard]] std::uint64_t of(const Value& value) const {
    return std::visit(
        [&](const auto& data) -> std::uint64_t {
          using T = std::decay_t<decltype(data)>;
          if constexpr (std::is_same_v<T, Cell>) {
            return of_cell(data);
          } else if constexpr (std::is_same_v<T, Array>) {
            return of_array(data);
          } else if constexpr (std::is_same_v<T, Table>) {
            return of_table(data);
          } else if constexpr (std::is_same_v<T, List>) {
            std::uint64_t count = 0;
            for (const Value& item : data) count += of(item);
            return count;
          } else {
            return of(*data);
          }
        },
        value.data);
  }

  [[nodiscard]] std::uint64_t of(const Record& record) const {
    std::uint64_t count = 0;
    for (const auto& field : record.fields) count += of(field.second);
    return count;
  }

  [[nodiscard]] std::uint64_t of(const Document& document) const {
    std::uint64_t count = of(document.head);
    for (const Section& section : document.sections) count += of(section.items);
    return count;
  }
};

std::uint64_t non_finite_cell(const Cell& cell) {
  return std::visit(
      [](const auto& value) -> std::uint64_t {
        if constexpr (std::is_floating_point_v<std::decay_t<decltype(value)>>) {
          return std::isfinite(value) ? 0 : 1;
        } else {
          return 0;
        }
      },
      cell);
}

std::uint64_t non_finite_elements(const Array& array) {
  return std::visit(
      [](const auto& values) -> std::uint64_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(values)>, std::span<const std::int64_t>>) {
          return 0;
        } else {
          std::uint64_t count = 0;
          for (const auto value : values) count += std::isfinite(value) ? 0 : 1;
          return count;
        }
      },
      array.values);
}

std::uint64_t non_finite_cells(const Table& table) {
  std::uint64_t count = 0;
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    for (const Cell& cell : cells) count += non_finite_cell(cell);
  }
  return count;
}

}  // namespace

void write_json(OutputFile& out, const Document& document, const WriteOptions& options) {
  JsonPlan plan(options.number);
  plan.add_document(document);
  write_pieces(out, plan.finish(), options);
}

void write_jsonl(OutputFile& out, const Document& document, const WriteOptions& options) {
  JsonPlan plan(options.number);
  plan.add_lines(document);
  out.write_whole_lines();
  write_pieces(out, plan.finish(), options);
}

std::uint64_t count_non_finite(const Document& document) {
  return Counter{non_finite_cell, non_finite_elements, non_finite_cells}.of(document);
}

std::uint64_t count_values(const Document& document) {
  return Counter{
      [](const Cell&) -> std::uint64_t { return 1; },
      [](const Array& array) -> std::uint64_t { return array.size(); },
      [](const Table& table) -> std::uint64_t { return std::uint64_t{table.rows} * table.columns.size(); }}
      .of(document);
}

}  // namespace attnctl

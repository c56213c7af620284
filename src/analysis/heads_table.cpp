#include "analysis/heads_table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "analysis/catalogue.hpp"
#include "analysis/head_axes.hpp"

namespace attnctl {
namespace {

Cell integer(std::size_t value) {
  return static_cast<std::int64_t>(value);
}

}  // namespace

Table heads_table(const HeadsTableParts& parts) {
  const std::size_t heads = parts.selection.heads.size();
  const bool per_input =
      parts.batch != nullptr && !parts.patterns.empty() && parts.patterns.front().input.has_value();
  std::vector<std::string> columns = {"component", "layer", "head", "kv_head", "rows"};
  if (per_input) columns.insert(columns.begin(), "input");
  for (const CatalogueRow& row : metric_catalogue()) columns.emplace_back(row.about.name);
  const std::size_t records = parts.patterns.empty() ? heads : parts.patterns.size();
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < records; ++i) {
    const HeadId head = parts.selection.heads[i % heads];
    HeadResults results;
    if (!parts.patterns.empty()) results.pattern = &parts.patterns[i];
    if (parts.weights != nullptr) {
      results.qk = &parts.weights->qk.heads[i % heads];
      if (parts.weights->ov) results.ov = &parts.weights->ov->heads[i % heads];
    }
    std::vector<Cell>& row = rows.emplace_back();
    if (per_input) row.emplace_back(parts.batch->sequences.at(*results.pattern->input).id);
    row.insert(row.end(),
               {component_cell(parts.config, head.layer), integer(parts.config.layers.at(head.layer).number),
                integer(head.head), integer(kv_head_of(parts.config, head)),
                results.pattern == nullptr ? Cell() : integer(results.pattern->rows)});
    for (const CatalogueRow& metric : metric_catalogue()) row.push_back(metric.value(results));
  }
  return make_table("heads", std::move(columns), std::move(rows));
}

Table with_head_names(const Table& table) {
  const auto component = std::ranges::find(table.columns, "component");
  const auto at = static_cast<std::size_t>(component - table.columns.begin());
  Table named = table;
  named.columns.at(at + 2) = "index";  // after component and layer
  named.columns.insert(named.columns.begin() + static_cast<std::ptrdiff_t>(at), "head");
  named.row = [row = table.row, at](std::size_t index, std::span<Cell> cells) {
    row(index, cells.subspan(1));
    for (std::size_t i = 0; i < at; ++i) cells[i] = std::move(cells[i + 1]);
    const std::string* const prefix = std::get_if<std::string>(&cells[at + 1]);
    cells[at] = fmt::format("{}{}.{}", prefix == nullptr ? "" : *prefix + ".",
                            std::get<std::int64_t>(cells[at + 2]), std::get<std::int64_t>(cells[at + 3]));
  };
  return named;
}

}  // namespace attnctl

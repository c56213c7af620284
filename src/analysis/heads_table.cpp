#include "analysis/heads_table.hpp"

#include <string>
#include <utility>
#include <vector>

#include "analysis/catalogue.hpp"
#include "analysis/head_axes.hpp"

namespace attnctl {
namespace {

Cell integer(std::size_t value) {
  return static_cast<std::int64_t>(value);
}

std::vector<std::string> column_names(bool per_input, HeadColumns columns) {
  std::vector<std::string> names;
  if (per_input) names.emplace_back("input");
  if (columns == HeadColumns::named) names.emplace_back("head");
  for (const char* name : {"component", "layer"}) names.emplace_back(name);
  names.emplace_back(columns == HeadColumns::named ? "index" : "head");
  for (const char* name : {"kv_head", "rows"}) names.emplace_back(name);
  for (const CatalogueRow& row : metric_catalogue()) names.emplace_back(row.about.name);
  return names;
}

std::vector<Cell> head_cells(const HeadsTableParts& parts, HeadId head, HeadColumns columns) {
  const std::size_t kv_head = parts.config.layers.at(head.layer).attention.kv_head(head.head);
  std::vector<Cell> cells;
  if (columns == HeadColumns::named) cells.emplace_back(head_name(parts.config, head));
  cells.push_back(component_cell(parts.config, head.layer));
  cells.push_back(integer(parts.config.layers.at(head.layer).number));
  cells.push_back(integer(head.head));
  cells.push_back(integer(kv_head));
  return cells;
}

}  // namespace

Table heads_table(const HeadsTableParts& parts, HeadColumns columns) {
  const std::size_t heads = parts.selection.heads.size();
  const bool per_input =
      parts.batch != nullptr && !parts.patterns.empty() && parts.patterns.front().input.has_value();
  const std::size_t records = parts.patterns.empty() ? heads : parts.patterns.size();
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < records; ++i) {
    const std::size_t selected = i % heads;
    HeadResults results;
    if (!parts.patterns.empty()) results.pattern = &parts.patterns[i];
    if (parts.weights != nullptr) {
      results.qk = &parts.weights->qk.heads[selected];
      if (parts.weights->ov) results.ov = &parts.weights->ov->heads[selected];
    }
    std::vector<Cell> cells;
    if (per_input && results.pattern != nullptr)
      cells.emplace_back(parts.batch->sequences.at(*results.pattern->input).id);
    for (Cell& cell : head_cells(parts, parts.selection.heads[selected], columns)) {
      cells.push_back(std::move(cell));
    }
    cells.push_back(results.pattern == nullptr ? Cell() : integer(results.pattern->rows));
    for (const CatalogueRow& row : metric_catalogue()) cells.push_back(row.value(results));
    rows.push_back(std::move(cells));
  }
  return make_table("heads", column_names(per_input, columns), std::move(rows));
}

}  // namespace attnctl

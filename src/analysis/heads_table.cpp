#include "analysis/heads_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"

namespace attnctl::analysis {
namespace {

/// A metric of the singular values. The heads table has one column for QK and one for OV.
struct SpectrumMetric {
  std::array<std::string_view, 2> names;
  std::string_view range, null, definition, source;
  Cell (*value)(const HeadSpectrum& spectrum);
};

constexpr std::array<SpectrumMetric, 3> kSpectrumMetrics{{
    {{"qk_effective_rank", "ov_effective_rank"},
     "[1, rank]",
     "of a Gaussian head: 61.9 at d 512, d_head 64",
     "exp of the entropy (nats) of the singular values divided by their sum",
     "Roy and Vetterli 2007, definition 1",
     [](const HeadSpectrum& spectrum) { return cell_of(spectrum.effective_rank); }},
    {{"qk_stable_rank", "ov_stable_rank"},
     "[1, rank]",
     "",
     "sum(s^2) / max(s)^2 of the singular values s",
     "Rudelson and Vershynin 2007",
     [](const HeadSpectrum& spectrum) { return cell_of(spectrum.stable_rank); }},
    {{"qk_numerical_rank", "ov_numerical_rank"},
     "[0, rank]",
     "rank for random weights",
     "singular values above max(rows, columns) eps(float32) max(s)",
     "numpy.linalg.matrix_rank",
     [](const HeadSpectrum& spectrum) { return cell_of(spectrum.numerical_rank); }},
}};

std::vector<CatalogueRow> make_catalogue() {
  std::vector<CatalogueRow> rows;
  for (const SpectrumMetric& metric : kSpectrumMetrics) {
    for (const auto circuit : {&HeadResults::qk, &HeadResults::ov}) {
      const std::string_view name = metric.names[circuit == &HeadResults::qk ? 0 : 1];
      rows.push_back({{name, "", metric.range, metric.null, metric.definition, metric.source},
                      [value = metric.value, circuit](const HeadResults& head) {
                        return head.*circuit == nullptr ? Cell() : value(*(head.*circuit));
                      }});
    }
  }
  const auto add = [&](const Definition& about, const auto& read) {
    rows.push_back({about, [read](const HeadResults& head) {
                      return head.pattern == nullptr ? Cell() : Cell(read(*head.pattern));
                    }});
  };
  for (std::size_t i = 0; i < row_metrics().size(); ++i)
    add(row_metrics()[i].about, [i](const HeadPatternMetrics& head) { return cell_of(head.means[i]); });
  add({"best_offset", "tokens", "[-8, 8]", "",
       "the most frequent offset key - query of the largest weight of a row (of equal weights, that of the "
       "first key), counting offsets -8 to 8 only; of equally frequent ones, the one closest to 0, "
       "then the negative one; undefined if no row has such an offset",
       "Voita et al. 2019"},
      [](const HeadPatternMetrics& head) { return head.best_offset ? Cell(*head.best_offset) : Cell(); });
  add({"best_offset_share", "", "[0, 1]", "1 / keys for random peaks",
       "share of all rows that have their largest weight at best_offset; a positional head has at least 0.9",
       "Voita et al. 2019"},
      [](const HeadPatternMetrics& head) { return cell_of(head.best_offset_share); });
  return rows;
}

Cell text_or_nothing(std::string_view text) {
  return text.empty() ? Cell() : Cell(std::string(text));
}

}  // namespace

std::span<const CatalogueRow> metric_catalogue() {
  static const std::vector<CatalogueRow> catalogue = make_catalogue();
  return catalogue;
}

Table metrics_table() {
  std::vector<std::vector<Cell>> rows;
  for (const auto& [about, value] : metric_catalogue())
    rows.push_back({std::string(about.name), text_or_nothing(about.unit), text_or_nothing(about.range),
                    text_or_nothing(about.null), text_or_nothing(about.source)});
  return make_table("metrics", {"name", "unit", "range", "null", "source"}, std::move(rows));
}

Table heads_table(const HeadsTableParts& parts) {
  const std::size_t heads = parts.selection.heads.size();
  const bool per_input =
      parts.batch != nullptr && !parts.patterns.empty() && parts.patterns.front().input.has_value();
  std::vector<Column> columns = {"component", "layer", "head", "kv_head", "rows"};
  if (per_input) columns.insert(columns.begin(), "input");
  for (const CatalogueRow& row : metric_catalogue()) columns.emplace_back(row.about.name);
  const std::size_t records = parts.patterns.empty() ? heads : parts.patterns.size();
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < records; ++i) {
    const model::HeadId head = parts.selection.heads[i % heads];
    HeadResults results;
    if (!parts.patterns.empty()) results.pattern = &parts.patterns[i];
    if (parts.weights != nullptr) {
      results.qk = &parts.weights->qk.heads[i % heads];
      if (parts.weights->ov) results.ov = &parts.weights->ov->heads[i % heads];
    }
    std::vector<Cell>& row = rows.emplace_back();
    if (per_input) row.emplace_back(parts.batch->sequences.at(*results.pattern->input).id);
    row.insert(row.end(), {component_cell(parts.config, head.layer), number_cell(parts.config, head.layer),
                           cell_of(head.head), cell_of(kv_head_of(parts.config, head)),
                           results.pattern == nullptr ? Cell() : cell_of(results.pattern->rows)});
    for (const CatalogueRow& metric : metric_catalogue()) row.push_back(metric.value(results));
  }
  return make_table("heads", std::move(columns), std::move(rows));
}

Table with_head_names(const Table& table) {
  const auto component = std::ranges::find(table.columns, "component", &Column::name);
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

}  // namespace attnctl::analysis

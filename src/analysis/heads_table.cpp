#include "analysis/heads_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"

namespace attnctl::analysis {
namespace {

constexpr std::array<Definition, 6> kRankMetrics = {
    {{"qk_effective_rank", "", "[1, rank]", "of a Gaussian head: 61.9 at d 512, d_head 64",
      "exp of the entropy (nats) of the singular values, each divided by their sum",
      "Roy and Vetterli 2007, definition 1"},
     {"ov_effective_rank", "", "[1, rank]", "of a Gaussian head: 61.9 at d 512, d_head 64",
      "exp of the entropy (nats) of the singular values, each divided by their sum",
      "Roy and Vetterli 2007, definition 1"},
     {"qk_stable_rank", "", "[1, rank]", "", "sum(s^2) / max(s)^2 of the singular values s",
      "Rudelson and Vershynin 2007"},
     {"ov_stable_rank", "", "[1, rank]", "", "sum(s^2) / max(s)^2 of the singular values s",
      "Rudelson and Vershynin 2007"},
     {"qk_numerical_rank", "", "[0, rank]", "rank for random weights",
      "number of singular values s above max(rows, columns) eps(float32) max(s)", "numpy.linalg.matrix_rank"},
     {"ov_numerical_rank", "", "[0, rank]", "rank for random weights",
      "number of singular values s above max(rows, columns) eps(float32) max(s)",
      "numpy.linalg.matrix_rank"}}};
constexpr std::array<Definition, 2> kOffsetMetrics = {
    {{"best_offset", "tokens", "[-8, 8]", "",
      "the most frequent offset key - query of the largest weight of a row (of equal weights, that of the "
      "first key), counting offsets -8 to 8 only; of equally frequent ones, the one closest to 0, "
      "then the negative one; undefined if no row has such an offset",
      "Voita et al. 2019"},
     {"best_offset_share", "", "[0, 1]", "1 / keys for random peaks",
      "share of all rows that have their largest weight at best_offset; the role positional has another "
      "score (explain roles.positional)",
      "Voita et al. 2019"}}};

}  // namespace

std::span<const Definition> metric_definitions() {
  static const std::vector<Definition> metrics = [] {
    std::vector<Definition> all(kRankMetrics.begin(), kRankMetrics.end());
    for (const RowMetric& metric : row_metrics()) all.push_back(metric.about);
    all.insert(all.end(), kOffsetMetrics.begin(), kOffsetMetrics.end());
    return all;
  }();
  return metrics;
}

Table metrics_table() {
  std::vector<std::vector<Cell>> rows;
  for (const Definition& metric : metric_definitions()) {
    std::vector<Cell>& row = rows.emplace_back();
    for (const std::string_view text : {metric.name, metric.unit, metric.range, metric.null, metric.source})
      row.push_back(text.empty() ? Cell() : Cell(std::string(text)));
  }
  return make_table("metrics", {"name", "unit", "range", "null", "source"}, std::move(rows));
}

Table heads_table(const HeadsTableParts& parts) {
  const std::size_t heads = parts.selection.heads.size();
  const bool per_input =
      parts.batch != nullptr && !parts.patterns.empty() && parts.patterns.front().input.has_value();
  std::vector<Column> columns =
      columns_of({}, {"input", "component", "layer", "head", "name", "kv_head", "rows"});
  if (!per_input) columns.erase(columns.begin());
  columns.insert(columns.end(), metric_definitions().begin(), metric_definitions().end());
  const std::size_t records = parts.patterns.empty() ? heads : parts.patterns.size();
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < records; ++i) {
    const model::HeadId head = parts.selection.heads[i % heads];
    const HeadPatternMetrics* const pattern = parts.patterns.empty() ? nullptr : &parts.patterns[i];
    std::vector<Cell>& row = rows.emplace_back();
    if (per_input) row.emplace_back(parts.batch->sequences.at(*pattern->input).id);
    std::ranges::copy(head_cells(parts.config, head), std::back_inserter(row));
    row.insert(row.end(), {cell_of(kv_head_of(parts.config, head)),
                           pattern == nullptr ? Cell() : cell_of(pattern->rows)});
    const auto add_rank = [&](const auto& rank) {
      const bool has_ov = parts.weights != nullptr && parts.weights->ov;
      row.push_back(parts.weights == nullptr ? Cell() : cell_of(parts.weights->qk.heads[i % heads].*rank));
      row.push_back(has_ov ? cell_of(parts.weights->ov->heads[i % heads].*rank) : Cell());
    };
    add_rank(&HeadSpectrum::effective_rank);
    add_rank(&HeadSpectrum::stable_rank);
    add_rank(&HeadSpectrum::numerical_rank);
    if (pattern != nullptr) {
      for (const std::optional<double>& mean : pattern->means) row.push_back(cell_of(mean));
      row.push_back(pattern->best_offset ? Cell(*pattern->best_offset) : Cell());
      row.push_back(cell_of(pattern->best_offset_share));
    }
    row.resize(columns.size());
  }
  return make_table("heads", std::move(columns), std::move(rows));
}

}  // namespace attnctl::analysis

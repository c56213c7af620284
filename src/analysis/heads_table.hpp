#pragma once

#include <span>

#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"
#include "results/results.hpp"

namespace attnctl::analysis {

/// Returns the definitions of all metrics of the heads table, in column order, as docs/metrics.md shows them.
[[nodiscard]] std::span<const Definition> metric_definitions();

/// Returns the table with the name, unit, range, null and source of each metric.
[[nodiscard]] Table metrics_table();

/// The arguments of heads_table. If `weights` is null or `patterns` is empty, its columns are undefined.
struct HeadsTableParts {
  const model::ModelConfig& config;
  const forward::Selection& selection;
  const WeightsAnalysis* weights = nullptr;
  /// Metrics of all selected heads, once per input (grouped by input) or once for all inputs.
  std::span<const HeadPatternMetrics> patterns;
  const input::Batch* batch = nullptr;  // source of the input names; needed only if metrics are per input
};

/// Returns a table with one row per selected head. If the metrics are per input, there is one row per head
/// and input, and the first column is `input`. The columns component, layer, head, name and kv_head identify
/// the head. The column `rows` and one column per metric follow. Columns without values are kept.
[[nodiscard]] Table heads_table(const HeadsTableParts& parts);

}  // namespace attnctl::analysis

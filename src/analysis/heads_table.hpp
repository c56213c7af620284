#pragma once

#include <functional>
#include <span>

#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"
#include "results/results.hpp"

namespace attnctl::analysis {

/// The results of one head. A pointer is null if the result does not exist.
struct HeadResults {
  const HeadSpectrum* qk = nullptr;
  const HeadSpectrum* ov = nullptr;
  const HeadPatternMetrics* pattern = nullptr;
};

/// A metric of the heads table, with the function that reads its value from the results of a head.
struct CatalogueRow {
  Definition about;
  /// Returns an undefined cell (monostate) if no value exists. Real numbers are floats.
  std::function<Cell(const HeadResults&)> value;
};

/// Returns every metric of the heads table, in column order. docs/metrics.md documents the metrics.
[[nodiscard]] std::span<const CatalogueRow> metric_catalogue();

[[nodiscard]] Table metrics_table();

/// The arguments of heads_table. If `weights` is null or `patterns` is empty, the columns computed from it
/// have undefined cells.
struct HeadsTableParts {
  const model::ModelConfig& config;
  const forward::Selection& selection;
  const WeightsAnalysis* weights = nullptr;
  /// Metrics of all selected heads, once per input (grouped by input) or once for all inputs.
  std::span<const HeadPatternMetrics> patterns;
  const input::Batch* batch = nullptr;  // source of the input names; needed only if metrics are per input
};

/// Returns a table with one row per selected head. If the metrics are per input, there is one row per head
/// and input, and the first column is `input`. The columns component, layer, head and kv_head identify the
/// head. The column `rows` and one column per metric follow. Columns without values are kept.
[[nodiscard]] Table heads_table(const HeadsTableParts& parts);

/// Returns a table with changed columns, for documents and text. A new column `head` with the name of the
/// head ("0.1", "enc.0.1") is inserted before the columns component, layer and head. The former column
/// `head`, the number of the head in its layer, is renamed to `index`.
[[nodiscard]] Table with_head_names(const Table& table);

}  // namespace attnctl::analysis

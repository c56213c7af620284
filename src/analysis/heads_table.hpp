#pragma once

#include <functional>
#include <span>

#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/patterns/pattern_row.hpp"
#include "analysis/weights/weights.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"
#include "results/results.hpp"

namespace attnctl {

/// The results of one head. A pointer is null if the result was not computed or is undefined.
struct HeadResults {
  const HeadSpectrum* qk = nullptr;
  const HeadSpectrum* ov = nullptr;
  const HeadPatternMetrics* pattern = nullptr;
};

/// A metric and the function that reads its value from the results.
struct CatalogueRow {
  Metric about;
  std::function<Cell(const HeadResults&)> value;  // returns monostate if undefined, float for real numbers
};

/// Returns every metric of the heads table in column order. docs/metrics.md documents them.
[[nodiscard]] std::span<const CatalogueRow> metric_catalogue();

/// Returns the catalogue as a table: name, unit, range, null, source.
[[nodiscard]] Table metrics_table();

/// The inputs of the heads table. Columns whose input is null are undefined.
struct HeadsTableParts {
  const ModelConfig& config;
  const Selection& selection;
  const WeightsAnalysis* weights = nullptr;
  std::span<const HeadPatternMetrics> patterns;  // all selected heads, per input in turn or pooled
  const Batch* batch = nullptr;                  // gives the input names of per-input metrics
};

/// Returns a table with one row per selected head, or per head and input (`input` is then the first column).
/// The columns component, layer, head and kv_head identify the head; `rows` and every metric of the catalogue
/// follow. The columns are always the same.
[[nodiscard]] Table heads_table(const HeadsTableParts& parts);

/// Returns a table with the columns component, layer and head as documents and text show it: a column `head`
/// with the name of the head ("0.1", "enc.0.1") is inserted before them, and the number of the head is
/// `index`.
[[nodiscard]] Table with_head_names(const Table& table);

}  // namespace attnctl

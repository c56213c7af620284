#pragma once

#include <span>

#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"
#include "results/results.hpp"

namespace attnctl {

/// Columns that identify the head of a row.
enum class HeadColumns {
  named,     // head ("L.H"), component, layer, index, kv_head: JSON and text
  integers,  // component, layer, head, kv_head: CSV
};

/// The inputs of the heads table. Columns whose input is null are undefined.
struct HeadsTableParts {
  const ModelConfig& config;
  const Selection& selection;
  const WeightsAnalysis* weights = nullptr;
  std::span<const HeadPatternMetrics> patterns;  // all selected heads, per input in turn or pooled
  const Batch* batch = nullptr;                  // gives the input names of per-input metrics
};

/// Returns a table with one row per selected head, or per head and input (`input` is then the first column).
/// Each row holds the identity of the head, `rows`, and every metric of the catalogue. The columns are
/// always the same.
[[nodiscard]] Table heads_table(const HeadsTableParts& parts, HeadColumns columns);

}  // namespace attnctl

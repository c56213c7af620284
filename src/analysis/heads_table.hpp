#pragma once

#include <span>

#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"
#include "results/result.hpp"

namespace attnctl {

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

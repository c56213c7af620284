#pragma once

#include <span>

#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"
#include "results/result.hpp"

namespace attnctl {

/// How a row says which head it is of.
enum class HeadColumns {
  named,     // head ("L.H"), component, layer, index, kv_head: JSON and text
  integers,  // component, layer, head, kv_head: CSV
};

/// What the heads table is made of; null what was not computed, its columns are then undefined.
struct HeadsTableParts {
  const ModelConfig& config;
  const Selection& selection;
  const WeightsAnalysis* weights = nullptr;
  std::span<const HeadPatternMetrics> patterns;  // of all selected heads, for each input in turn or pooled
  const Batch* batch = nullptr;                  // names the inputs of metrics that are per input
};

/// One row a selected head, or a head and input (`input` is then the first column): which head, `rows`, then
/// every metric of the catalogue. Always the same columns.
[[nodiscard]] Table heads_table(const HeadsTableParts& parts, HeadColumns columns);

}  // namespace attnctl

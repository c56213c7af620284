#pragma once

#include <functional>
#include <span>

#include "analysis/metric.hpp"
#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
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

}  // namespace attnctl

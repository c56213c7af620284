#pragma once

#include <functional>
#include <span>

#include "analysis/metric.hpp"
#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
#include "results/result.hpp"

namespace attnctl {

/// What was computed for one head; null where it was not, or is undefined.
struct HeadResults {
  const HeadSpectrum* qk = nullptr;
  const HeadSpectrum* ov = nullptr;
  const HeadPatternMetrics* pattern = nullptr;
};

/// A metric and where its value is found.
struct CatalogueRow {
  Metric about;
  std::function<Cell(const HeadResults&)> value;  // monostate: undefined; real numbers as float
};

/// Every metric of the heads table in the order of its columns. docs/metrics.md shows it to people.
[[nodiscard]] std::span<const CatalogueRow> metric_catalogue();

/// The catalogue as a table: name, unit, range, null, source.
[[nodiscard]] Table metrics_table();

}  // namespace attnctl

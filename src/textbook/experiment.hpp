#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/results.hpp"

namespace attnctl {

/// A page of heatmaps with the name that --picture selects.
struct NamedHeatmaps {
  std::string name;
  HeatmapPage page;
};

/// The rows, summary and pictures of one textbook experiment. The same seed and parameters give the same
/// numbers for any number of threads.
struct ExperimentResult {
  std::string name;
  std::uint64_t seed = 0;
  Record parameters;
  Table rows;
  Record summary;
  std::vector<Chart> charts;
  Table drawn;                          // the table of the charts; no columns: use the rows
  std::vector<NamedHeatmaps> heatmaps;  // shown after the charts
};

/// Converts the result to the types of the writers. `with_charts` also draws the charts in text output.
[[nodiscard]] Results results_of(const ExperimentResult& result, bool with_charts);

}  // namespace attnctl

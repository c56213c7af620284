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

/// Rows of numbers, a summary and pictures of one experiment of the textbook. The same seed and parameters
/// give the same numbers for any number of threads.
struct ExperimentResult {
  std::string name;
  std::uint64_t seed = 0;
  Record parameters;
  Table rows;
  Record summary;
  std::vector<Chart> charts;
  Table drawn;                          // the table of the charts; without columns: the rows
  std::vector<NamedHeatmaps> heatmaps;  // pictures after the charts
};

/// Returns the result in the terms of the writers. `with_charts` draws the charts in the text too.
[[nodiscard]] Results results_of(const ExperimentResult& result, bool with_charts);

}  // namespace attnctl

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/heatmap.hpp"
#include "results/result.hpp"

namespace attnctl {

/// A page of heatmaps, and the name that --picture asks for it by.
struct NamedHeatmaps {
  std::string name;
  HeatmapPage page;
};

/// What an experiment of the textbook gives: rows of numbers, what they come to, and how to draw them. The
/// same seed and parameters give the same numbers, whatever the threads.
struct ExperimentResult {
  std::string name;
  std::uint64_t seed = 0;
  Record parameters;
  Table rows;
  Record summary;
  std::vector<Chart> charts;
  Table drawn;                          // what the charts show; without columns: the rows
  std::vector<NamedHeatmaps> heatmaps;  // pictures besides the charts
};

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "inspect/run_results.hpp"
#include "cli/options/analysis_request.hpp"

namespace attnctl::cli {

/// Applies --show to a request: selects the patterns of head L.H, or of all heads of layer L, as a picture.
/// Throws Error(usage) if other options contradict it.
void apply_show(AnalysisRequest& request);

/// Returns the tokens of a sequence as labels, or positions if it has none.
[[nodiscard]] std::vector<std::string> token_labels(const RunResults& results, const Sequence& sequence);

/// Returns the labels of the keys of a layer. Empty if the keys are separate embeddings.
[[nodiscard]] std::vector<std::string> key_labels(const RunResults& results, const Sides& sides);

/// A pattern to draw.
struct DrawnPattern {
  std::string title;  // "3.1", "mean"
  std::size_t sequence = 0;
  Component component = Component::none;
  Array values;  // [n, m]
};

/// Returns the computed patterns, ordered by input. If --show names a layer, their mean is the first of each
/// input.
[[nodiscard]] std::vector<DrawnPattern> drawn_patterns(const RunResults& results);

/// Appends the drawing of --show: a heatmap with token labels for a head, or small heatmaps in a grid for a
/// layer.
void append_drawn(std::vector<PageBlock>& blocks, const RunResults& results);

}  // namespace attnctl::cli

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/analyses/results.hpp"
#include "cli/options/analysis_request.hpp"

namespace attnctl::cli {

/// Makes a request of what --show names: the patterns of head L.H, or of all heads of layer L, as a picture.
/// Throws Error(usage) where other options contradict it.
void apply_show(AnalysisRequest& request);

/// The tokens of a sequence as labels; positions where it has none.
[[nodiscard]] std::vector<std::string> token_labels(const RunResults& results, const Sequence& sequence);

/// The same of a layer's keys; none where they come from elsewhere as embeddings.
[[nodiscard]] std::vector<std::string> key_labels(const RunResults& results, const Sides& sides);

/// One matrix to draw.
struct DrawnPattern {
  std::string title;  // "3.1", "mean"
  std::size_t sequence = 0;
  Component component = Component::none;
  Array values;  // [n, m]
};

/// The patterns that were computed, by input; before those of a layer their mean, where --show named a layer.
[[nodiscard]] std::vector<DrawnPattern> drawn_patterns(const RunResults& results);

/// Appends the drawing of --show: a heatmap with the tokens for a head, small ones side by side for a layer.
void append_drawn(std::vector<PageBlock>& blocks, const RunResults& results);

}  // namespace attnctl::cli

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "results/result.hpp"
#include "textbook/experiment.hpp"

namespace attnctl::experiments {

/// Of the rows of gradients.
[[nodiscard]] std::vector<std::string> gradient_columns();

/// Fills in the charts and what they show: of one d_k the heads as bars, of several the layer over d_k. The
/// rows of a d_k: unscaled the heads and the layer, then scaled.
void draw_gradients(std::span<const std::vector<Cell>> rows, std::size_t sizes, ExperimentResult& result);

}  // namespace attnctl::experiments

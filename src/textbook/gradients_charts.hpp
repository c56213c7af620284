#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "results/results.hpp"
#include "textbook/experiment.hpp"

namespace attnctl::experiments {

/// Returns the column names of the gradients table.
[[nodiscard]] std::vector<std::string> gradient_columns();

/// Fills in the charts and their table. With one d_k, draws the heads as bars. With several, draws the layer
/// over d_k. The rows of each d_k are the heads and the layer unscaled, then scaled.
///
/// @param sizes  number of values of d_k
void draw_gradients(std::span<const std::vector<Cell>> rows, std::size_t sizes, ExperimentResult& result);

}  // namespace attnctl::experiments

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"
#include "reference/reference.hpp"

namespace attnctl {

// Axial attention over a grid of embeddings [N, L, d] (Ho et al. 2019). Both steps use the weights of the
// same layer. First every column attends within itself and its output is added: x1 = x + output. Then every
// row of x1 attends within itself. This takes N L (N + L) scores instead of (N L)^2.

/// Number of rows and columns of a grid. In the batch, the columns come first and the rows follow.
struct AxialGrid {
  std::size_t rows = 0;     // N
  std::size_t columns = 0;  // L
};

/// Converts the rows of a grid, N sequences of L embeddings each, to the inputs of axial attention: "column
/// 0" to "column L-1", then "row 0" to "row N-1". Throws Error(bad_input) if the model is not a single bare
/// layer with equal input and output width, if the rows have different lengths, or if a row has separate
/// keys or a mask.
[[nodiscard]] AxialGrid make_axial(const Model& model, Batch& batch);

/// Calls run_forward over the columns, then over the rows, whose embeddings are x1. Calls each observer's
/// begin() once, with the whole batch.
void run_axial(const Model& model, Batch& batch, const AxialGrid& grid, const Selection& selection,
               std::span<Observer* const> observers, RunContext& context);

/// Does the same with run_reference. Returns one pass per sequence of the batch. x1 is rounded to float32.
[[nodiscard]] std::vector<ReferencePass> run_axial_reference(const Model& model, Batch batch,
                                                             const AxialGrid& grid, Pool& pool);

}  // namespace attnctl

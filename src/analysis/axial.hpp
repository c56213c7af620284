#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"
#include "reference/reference.hpp"

namespace attnctl {

// Axial attention over a grid of embeddings [N, L, d] (Ho et al. 2019): every column attends within itself,
// x1 = x + that, then every row of x1 does, with the weights of the same layer. N L (N + L) scores in the
// place of (N L)^2.

/// How many sequences of a batch are columns; the rows follow.
struct AxialGrid {
  std::size_t rows = 0;     // N
  std::size_t columns = 0;  // L
};

/// Turns the rows of a grid, N sequences of L embeddings each, into what axial attention runs over: inputs
/// "column 0" to "column L-1", then "row 0" to "row N-1". Throws Error(bad_input) where the model is not one
/// bare layer whose output is as wide as its input, or where rows have unlike lengths, or keys or masks.
[[nodiscard]] AxialGrid make_axial(const Model& model, Batch& batch);

/// run_forward over the columns, then over the rows, whose embeddings become x1. Observers begin once, with
/// the whole batch.
void run_axial(const Model& model, Batch& batch, const AxialGrid& grid, const Selection& selection,
               std::span<Observer* const> observers, RunContext& context);

/// The same by run_reference: a pass for each sequence of the batch. x1 is rounded to float32.
[[nodiscard]] std::vector<ReferencePass> run_axial_reference(const Model& model, Batch batch,
                                                             const AxialGrid& grid, Pool& pool);

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"
#include "reference/reference.hpp"

namespace attnctl::analysis {

// Axial attention over a grid of embeddings [N, L, d] (Ho et al. 2019). Both steps use the weights of the
// same layer. In step 1, the embeddings of each column attend to each other, and the attention output is
// added to the grid: x1 = x + output. In step 2, the embeddings of each row of x1 attend to each other. Axial
// attention computes N L (N + L) scores per head; full attention would compute (N L)^2.

struct AxialGrid {
  std::size_t rows = 0;     // N
  std::size_t columns = 0;  // L
};

/// Prepares a batch for axial attention. On entry, the batch holds the rows of a grid: N sequences of L
/// embeddings each. On return, it holds the sequences "column 0" to "column L-1", then "row 0" to "row N-1".
/// Throws Error(bad_input) if the model has several layers, if its layer has a norm, an MLP or no W_V, if the
/// model adds positions to its input or projects it, or if its input and output have different widths; also
/// if an input is not embeddings, has another length than the first input, or has separate keys or a mask.
[[nodiscard]] AxialGrid make_axial(const model::Model& model, input::Batch& batch);

/// Without a grid, calls run_forward. Otherwise runs run_forward on the columns, adds the attention outputs
/// of the columns to the rows (x1), then runs run_forward on the rows. `batch` comes from make_axial; on
/// return, its rows are x1. Calls begin() of each observer once, with the whole batch.
void run_axial(const model::Model& model, input::Batch& batch, const std::optional<AxialGrid>& grid,
               const forward::Selection& selection, std::span<forward::Observer* const> observers,
               forward::RunContext& context);

/// Computes axial attention in float64 with run_reference, but rounds x1 to float32. Returns one pass per
/// sequence of `batch`, which comes from make_axial.
[[nodiscard]] std::vector<reference::ReferencePass> run_axial_reference(const model::Model& model,
                                                                        input::Batch batch,
                                                                        const AxialGrid& grid, Pool& pool);

}  // namespace attnctl::analysis

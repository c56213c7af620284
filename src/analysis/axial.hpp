#pragma once

#include <cstddef>
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
// attention computes N L (N + L) scores; full attention would compute (N L)^2.

struct AxialGrid {
  std::size_t rows = 0;     // N
  std::size_t columns = 0;  // L
};

/// Prepares a batch for axial attention. On entry, the batch holds the rows of a grid: N sequences of L
/// embeddings each. On return, it holds the sequences "column 0" to "column L-1", then "row 0" to "row N-1".
/// Throws Error(bad_input) if the model is not one layer of attention only (without norm, MLP, positions or
/// input projection, with W_V, and with equal input and output width), if an input is not embeddings, if the
/// rows have different lengths, or if a row has separate keys or a mask.
[[nodiscard]] AxialGrid make_axial(const model::Model& model, input::Batch& batch);

/// Runs run_forward on the columns, adds their outputs to the rows (x1), then runs run_forward on the rows.
/// `batch` comes from make_axial. Calls begin() of each observer once, with the whole batch.
void run_axial(const model::Model& model, input::Batch& batch, const AxialGrid& grid,
               const forward::Selection& selection, std::span<forward::Observer* const> observers,
               forward::RunContext& context);

/// Computes the same in float64 with run_reference; only x1 is float32. Returns a pass for each sequence.
[[nodiscard]] std::vector<reference::ReferencePass> run_axial_reference(const model::Model& model,
                                                                        input::Batch batch,
                                                                        const AxialGrid& grid, Pool& pool);

}  // namespace attnctl::analysis

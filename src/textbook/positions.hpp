#pragma once

#include <cstddef>
#include <cstdint>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "model/model.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// Positions, sinusoidal and of a model (Vaswani et al. 2017, 3.5).
struct PositionsOptions {
  std::size_t positions = 64;
  std::size_t d = 64;  // even
  std::size_t far = 1'000'000;
  std::size_t heads = 4;  // of the layer that is permuted; they divide d
  std::uint64_t seed = 0;
  const Model* model = nullptr;  // beside the sinusoidal ones, those of its position table or rotary
};

/// PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos of the same angle, in float64: row r is of position
/// first + r.
[[nodiscard]] OwnedMatrix<double> sinusoidal_positions(std::size_t first, std::size_t count, std::size_t d);

/// The rotation that takes PE(p) to PE(p + offset) for every p: each pair (2i, 2i+1) of a row turns by
/// offset / 10000^(2i/d).
void turn_positions(MatrixView<double> rows, std::size_t offset);

/// Rows by distance o from 0: the dot product PE(p) PE(p + o), mean over p, and its largest difference from
/// the mean; the residual of the rotation, the largest entry of |PE(p) R(o) - PE(p + o)| over p, and the same
/// from position `far` on. Then of the model: with a table of positions (its rows as stored), the dot product
/// of two rows by distance, mean and standard deviation over p; with rotary positions, the mean over the
/// frequencies of cos(o theta), which is what turning makes of the product of a query and a key that are
/// equal in every pair. The summary has the smallest distance between two positions, and what a random layer
/// makes of permuted input, without positions and with sinusoidal ones: max |y(P x) - P y(x)| / max |y|.
/// Throws Error: usage for odd d, heads that do not divide d, and more positions than the model has;
/// bad_input for a model without positions.
[[nodiscard]] ExperimentResult positions_experiment(const PositionsOptions& options, Pool& pool);

}  // namespace attnctl

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "model/model.hpp"
#include "textbook/experiment.hpp"

namespace attnctl::textbook {

/// Options of the positions experiment (Vaswani et al. 2017, section 3.5). It examines sinusoidal positions
/// and the positions of a model.
struct PositionsOptions {
  std::size_t positions = 64;
  std::size_t d = 64;           // even
  std::size_t far = 1'000'000;  // first of the far positions whose rotation residual is measured
  std::size_t heads = 4;        // heads of the random layer that receives permuted input; must divide d
  std::uint64_t seed = 0;
  /// A model whose position table or rotary positions are measured too; null: only sinusoidal positions.
  const model::Model* model = nullptr;
};

/// Returns the sinusoidal positions `first` to `first` + `count` - 1, [count, d]: PE(p, 2i) = sin(p /
/// 10000^(2i/d)) and PE(p, 2i+1) = cos(p / 10000^(2i/d)).
[[nodiscard]] OwnedMatrix<double> sinusoidal_positions(std::size_t first, std::size_t count, std::size_t d);

/// Applies to each row the rotation that maps PE(p) to PE(p + offset) for every position p. The rotation
/// turns the columns 2i and 2i+1 by the angle offset / 10000^(2i/d).
void turn_positions(MatrixView<double> rows, std::size_t offset);

/// Returns one row for each distance o from 0 to `positions` - 1 between two positions p and p + o:
/// - for sinusoidal positions, the mean over p of the dot product PE(p) PE(p + o), the largest difference
///   from this mean, and two rotation residuals, for positions from 0 on and from `far` on; a rotation
///   residual is the largest |PE(p) R(o) - PE(p + o)| of an entry over p, where R(o) is the rotation of
///   turn_positions()
/// - for a model with a position table, the mean and standard deviation over p of the dot product of the rows
///   p and p + o of the table
/// - for a model with rotary positions, the mean of cos(o theta) over the rotary frequencies theta
///
/// The summary has the smallest distance between two position vectors, and the change of a random layer's
/// output y if a permutation P is applied to its input x: max |y(P x) - P y(x)| / max |y(x)|, without
/// positions and with sinusoidal positions.
///
/// Throws Error(usage) if d is odd, if heads does not divide d, or if there are more positions than the model
/// has. Throws Error(bad_input) if the model has neither rotary positions nor positions added to its
/// embeddings.
[[nodiscard]] ExperimentResult positions_experiment(const PositionsOptions& options, Pool& pool);

}  // namespace attnctl::textbook

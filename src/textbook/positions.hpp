#pragma once

#include <cstddef>
#include <cstdint>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "model/model.hpp"
#include "textbook/experiment.hpp"

namespace attnctl {

/// Options of the positions experiment (Vaswani et al. 2017, 3.5) for sinusoidal and model positions.
struct PositionsOptions {
  std::size_t positions = 64;
  std::size_t d = 64;  // even
  std::size_t far = 1'000'000;
  std::size_t heads = 4;  // heads of the permuted layer; must divide d
  std::uint64_t seed = 0;
  const Model* model = nullptr;  // model to compare (position table or rotary); null: none
};

/// Returns sinusoidal positions in float64: PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos of the same
/// angle. Row r is position first + r.
[[nodiscard]] OwnedMatrix<double> sinusoidal_positions(std::size_t first, std::size_t count, std::size_t d);

/// Applies the rotation that maps PE(p) to PE(p + offset) for every p. It rotates each pair (2i, 2i+1) of a
/// row by offset / 10000^(2i/d).
void turn_positions(MatrixView<double> rows, std::size_t offset);

/// Returns rows by distance o from 0 with the following values. Sinusoidal positions: the mean over p of the
/// dot product PE(p) PE(p + o) and the largest difference from it; the rotation residual, which is the
/// largest entry of |PE(p) R(o) - PE(p + o)| over p, from position 0 and from position `far`. A model with a
/// position table (rows as stored): mean and standard deviation over p of the dot product of two rows. A
/// model with rotary positions: the mean over the frequencies of cos(o theta), which is the rotated dot
/// product of a query and a key that are equal in every pair. The summary has the smallest distance between
/// two positions and the effect of permuted input on a random layer, max |y(P x) - P y(x)| / max |y|,
/// without positions and with sinusoidal ones.
/// Throws Error(usage) if d is odd, if heads does not divide d, or if there are more positions than the
/// model has. Throws Error(bad_input) if the model has no positions.
[[nodiscard]] ExperimentResult positions_experiment(const PositionsOptions& options, Pool& pool);

}  // namespace attnctl

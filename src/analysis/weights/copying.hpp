#pragma once

#include <optional>
#include <vector>

#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl {

/// OV copying of each selected head (Elhage et al. 2021): Re(sum lambda) / sum |lambda| over the eigenvalues
/// of W_E OV W_U, in [-1, 1]. W_E is the token embedding, through its projection where there is one; W_U the
/// decoder, after the matrix of the head's transform where that leads from the stream to another width
/// (ALBERT); transforms that keep the width, activations and norms are left out.
///
/// The eigenvalues other than 0 are those of W_O (W_U W_E) W_V [v, v]: W_U W_E [d, d] is summed once over the
/// vocabulary, in double and in an order that does not depend on threads. nullopt where the model has no
/// embedding, no decoder or no OV circuit that fits them, and for heads whose eigenvalues are all zero or not
/// finite. Warnings: `no_copying` (the model has no such score), `undefined_copying` (a head has none).
[[nodiscard]] std::vector<std::optional<double>> ov_copying(const Model& model, const Selection& selection,
                                                            bool fold_norm, Pool& pool, Warnings& warnings);

}  // namespace attnctl

#pragma once

#include <optional>
#include <vector>

#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl {

/// Returns the OV copying score of each selected head (Elhage et al. 2021): Re(sum lambda) / sum |lambda|
/// over the eigenvalues of W_E OV W_U, in [-1, 1]. W_E is the token embedding, followed by its projection if
/// there is one. W_U is the decoder, preceded by the matrix of the output head's transform if that matrix
/// changes the width (ALBERT). Activations, norms and transforms that keep the width are left out.
///
/// The nonzero eigenvalues equal those of W_O (W_U W_E) W_V [v, v]. W_U W_E [d, d] is summed once over the
/// vocabulary, in double and in a fixed order. The score is nullopt if the model has no embedding, no
/// decoder or no OV circuit of matching width, and for heads whose eigenvalues are all zero or not finite.
/// Warnings: `no_copying` (no score for the model), `undefined_copying` (no score for a head).
[[nodiscard]] std::vector<std::optional<double>> ov_copying(const Model& model, const Selection& selection,
                                                            bool fold_norm, Pool& pool, Warnings& warnings);

}  // namespace attnctl

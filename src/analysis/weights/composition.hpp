#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/similarity/subspaces.hpp"
#include "base/matrix_view.hpp"
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

/// The input of a later head that an earlier head's output affects: queries, keys or values.
enum class CompositionKind { query, key, value };
inline constexpr std::array kAllCompositions{CompositionKind::query, CompositionKind::key,
                                             CompositionKind::value};

/// Returns "q", "k" or "v".
[[nodiscard]] std::string_view name_of(CompositionKind kind);

/// Composition scores |W_OV M|_F / (|W_OV|_F |M|_F) of every earlier head with every later head (Elhage et
/// al. 2021). M is the later head's QK for queries, QK^T for keys, OV for values. Rows are earlier heads,
/// columns later heads.
struct Composition {
  CompositionKind kind = CompositionKind::query;
  std::vector<HeadId> heads;
  OwnedMatrix<double>
      scores;  // [heads, heads], in [0, 1]; NaN: undefined, or not an earlier and a later head
  OwnedMatrix<double> excess;      // scores minus the null of the same shapes
  std::optional<double> mean;      // mean of all scores
  std::optional<RandomNull> null;  // mean over the same pairs, deviation of one pair; nullopt: no pairs
};

struct CompositionOptions {
  bool fold_norm = false;  // see circuit_factors
  std::uint64_t seed = 0;
  std::size_t draws = 64;  // number of random pairs per set of shapes
};

/// Returns the query, key and value compositions of the selected heads. The null is the mean over `draws`
/// pairs of heads with the same shapes and independent normal weights (about 1/sqrt(d)).
///
/// No d x d matrix is formed. With W_V = Q R, M = L S^T and S = Q' R', the norm of the product equals that
/// of (R W_O) (R' L^T)^T. Both sides are scaled to norm 1 in double and multiplied in float32, which changes
/// a score by about 1e-7. Results do not depend on the number of threads.
[[nodiscard]] std::vector<Composition> analyze_composition(const Model& model, const Selection& selection,
                                                           const CompositionOptions& options, Pool& pool);

}  // namespace attnctl

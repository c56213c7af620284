#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/similarity/subspaces.hpp"
#include "base/error.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl::analysis {

/// Returns the OV copying score of each selected head (Elhage et al. 2021): Re(sum lambda) / sum |lambda|
/// over the eigenvalues lambda of W_E OV W_U, in [-1, 1]. W_E is the token embedding, multiplied by its
/// projection if there is one. W_U is the matrix that computes the logits. If the output head has a transform
/// whose matrix changes the width (ALBERT), W_U includes this matrix. Activations, norms, and transforms that
/// keep the width are ignored.
///
/// The nonzero eigenvalues equal those of the smaller matrix W_O (W_U W_E) W_V [v, v]. W_U W_E [d, d] is a
/// sum over the vocabulary; it is computed once, in double and in a fixed order. The score is nullopt if the
/// model has no embedding, no output head or no OV circuit of matching width, if all eigenvalues of the head
/// are zero, or if the smaller matrix is not finite. Adds the warning `no_copying` if the model has no
/// embedding or no matching output head, and otherwise `undefined_copying` for each head whose score is
/// nullopt.
[[nodiscard]] std::vector<std::optional<double>> ov_copying(const model::Model& model,
                                                            const forward::Selection& selection,
                                                            bool fold_norm, Pool& pool, Warnings& warnings);

/// Which input of a later head reads the output of an earlier head: queries, keys or values.
enum class CompositionKind { query, key, value };
inline constexpr std::array kAllCompositions{CompositionKind::query, CompositionKind::key,
                                             CompositionKind::value};

[[nodiscard]] constexpr std::string_view name_of(CompositionKind kind) {
  return std::string_view("qkv").substr(static_cast<std::size_t>(kind), 1);
}

/// Composition scores |W_OV M|_F / (|W_OV|_F |M|_F) of every earlier head with every head of a later layer
/// (Elhage et al. 2021). W_OV is the OV circuit of the earlier head. M is a circuit of the later head: QK for
/// queries, QK^T for keys, OV for values. Rows are earlier heads, columns later heads.
struct Composition {
  CompositionKind kind = CompositionKind::query;
  std::vector<model::HeadId> heads;
  /// [heads, heads], in [0, 1]. NaN if undefined, or if the row's layer is not below the column's.
  OwnedMatrix<double> scores;
  OwnedMatrix<double> excess;  // scores minus the mean score of random weights of the same shapes
  std::optional<double> mean;  // mean of all defined scores
  RandomNull null;             // random baseline, averaged over the pairs with a score
};

struct CompositionOptions {
  bool fold_norm = false;  // see circuit_factors
  std::uint64_t seed = 0;
  std::size_t draws = 64;  // number of random pairs of heads for each combination of shapes
};

/// Returns the query, key and value compositions of the selected heads. The random baseline of a pair is the
/// mean score of `draws` random pairs of heads. Their weights are independent normal variables and have the
/// same shapes as those of the pair. This mean is about 1/sqrt(d).
///
/// No d x d matrix is formed. Let W_V = Q R and S = Q' R' be QR decompositions, with M = L S^T. The norm of
/// W_OV M then equals that of (R W_O) (R' L^T)^T. Both matrices of this product are scaled to norm 1 in
/// double and multiplied in float32, which changes a score by about 1e-7. Threads do not change the results.
[[nodiscard]] std::vector<Composition> analyze_composition(const model::Model& model,
                                                           const forward::Selection& selection,
                                                           const CompositionOptions& options, Pool& pool);

}  // namespace attnctl::analysis

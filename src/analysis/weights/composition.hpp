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
#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl {

/// What of a later head reads an earlier head's output: its queries, keys or values.
enum class CompositionKind { query, key, value };
inline constexpr std::array all_compositions{CompositionKind::query, CompositionKind::key,
                                             CompositionKind::value};

/// "q", "k", "v".
[[nodiscard]] std::string_view name_of(CompositionKind kind);

/// |W_OV M|_F / (|W_OV|_F |M|_F) of every earlier head with every later one (Elhage et al. 2021), with M = QK
/// of the later head for queries, QK^T for keys, OV for values. Row: the earlier head, column: the later one.
struct Composition {
  CompositionKind kind = CompositionKind::query;
  std::vector<HeadId> heads;
  OwnedMatrix<double>
      scores;  // [heads, heads], in [0, 1]; NaN: not an earlier and a later head, or undefined
  OwnedMatrix<double> excess;      // the scores less the null of their shapes
  std::optional<double> mean;      // of all scores
  std::optional<RandomNull> null;  // mean over the same pairs, and deviation of one pair; nullopt: no pairs
};

struct CompositionOptions {
  bool fold_norm = false;  // see circuit_factors
  std::uint64_t seed = 0;
  std::size_t draws = 64;  // random pairs for each set of shapes
};

/// All three, of the selected heads. The null is the mean over `draws` pairs of heads of the same shapes with
/// independent normal weights (about 1/sqrt(d)).
///
/// No d x d matrix is formed: with W_V = Q R and M = L S^T, S = Q' R', the product's norm is that of
/// (R W_O) (R' L^T)^T. Both sides are scaled to norm 1 in double and multiplied in float32, which moves a
/// score by about 1e-7. Nothing depends on threads.
[[nodiscard]] std::vector<Composition> analyze_composition(const Model& model, const Selection& selection,
                                                           const CompositionOptions& options, Pool& pool);

}  // namespace attnctl

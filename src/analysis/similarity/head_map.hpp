#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/similarity/clustering.hpp"
#include "analysis/similarity/planar_map.hpp"
#include "base/matrix_view.hpp"
#include "model/model.hpp"

namespace attnctl {

/// Which heads are alike: their tree and their places in a plane, of the distances 1 - similarity.
struct HeadMap {
  std::vector<HeadId> heads;      // those that have a similarity, in the order given
  std::vector<HeadId> undefined;  // the others
  Linkage linkage;                // of `heads`
  PlanarMap map;                  // of `heads`

  /// Heads in the order of the tree's leaves, then those without a similarity.
  [[nodiscard]] std::vector<HeadId> order() const;
};

/// `similarity` [heads, heads]: symmetric, at most 1; NaN in the rows and columns of heads without one.
[[nodiscard]] HeadMap map_heads(std::span<const HeadId> heads, MatrixView<const double> similarity);

}  // namespace attnctl

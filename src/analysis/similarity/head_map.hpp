#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/similarity/clustering.hpp"
#include "analysis/similarity/planar_map.hpp"
#include "base/matrix_view.hpp"
#include "model/model.hpp"

namespace attnctl {

/// Similar heads, shown by a cluster tree and by positions in the plane. Both use the distances 1 -
/// similarity.
struct HeadMap {
  std::vector<HeadId> heads;      // heads with a similarity, in the given order
  std::vector<HeadId> undefined;  // heads without a similarity
  Linkage linkage;                // over `heads`
  PlanarMap map;                  // over `heads`

  /// Returns the heads in the order of the tree's leaves, followed by the undefined heads.
  [[nodiscard]] std::vector<HeadId> order() const;
};

/// Returns the map of the heads.
///
/// @param similarity  [heads, heads], symmetric, at most 1; NaN in the rows and columns of undefined heads
[[nodiscard]] HeadMap map_heads(std::span<const HeadId> heads, MatrixView<const double> similarity);

}  // namespace attnctl

#include "analysis/similarity/head_map.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace attnctl {

std::vector<HeadId> HeadMap::order() const {
  std::vector<HeadId> all;
  all.reserve(heads.size() + undefined.size());
  for (const std::size_t leaf : linkage.leaves) all.push_back(heads[leaf]);
  all.insert(all.end(), undefined.begin(), undefined.end());
  return all;
}

HeadMap map_heads(std::span<const HeadId> heads, MatrixView<const double> similarity) {
  HeadMap result;
  std::vector<std::size_t> defined;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    // After an overflow, a pair of heads can be undefined although both heads are defined with other heads.
    const auto comparable = [&](std::size_t other) { return std::isfinite(similarity(i, other)); };
    if (comparable(i) && std::ranges::all_of(defined, comparable)) {
      defined.push_back(i);
      result.heads.push_back(heads[i]);
    } else {
      result.undefined.push_back(heads[i]);
    }
  }
  OwnedMatrix<double> distances(defined.size(), defined.size());
  for (std::size_t a = 0; a < defined.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      distances(a, b) = distances(b, a) = 1 - similarity(defined[a], defined[b]);
    }
  }
  const MatrixView<const double> view = std::as_const(distances).view();
  result.linkage = average_linkage(view);
  result.map = classical_mds(view);
  return result;
}

}  // namespace attnctl

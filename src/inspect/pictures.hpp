#pragma once

#include <vector>

#include "inspect/run_results.hpp"

namespace attnctl::cli {

/// Returns the pictures of a run that were computed: the patterns, the pictures of the further analyses, and
/// the subspace similarity of heads (QK).
[[nodiscard]] std::vector<Picture> analysis_pictures(const RunResults& results);

}  // namespace attnctl::cli

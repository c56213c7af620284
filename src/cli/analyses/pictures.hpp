#pragma once

#include <vector>

#include "cli/analyses/results.hpp"

namespace attnctl::cli {

/// Returns the pictures of a run: patterns, those of the further analyses, and the subspace similarity of
/// heads (QK), each if it was computed.
[[nodiscard]] std::vector<Picture> analysis_pictures(const RunResults& results);

}  // namespace attnctl::cli

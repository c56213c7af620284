#pragma once

#include <string>

#include "base/pool.hpp"
#include "results/results.hpp"
#include "study/state/study_state.hpp"

namespace attnctl {

/// Returns the names of the BLAS kernels that computed the blocks: "SkylakeX", or "Haswell+SkylakeX" if
/// shards ran on different machines.
[[nodiscard]] std::string kernel_names(const StudyState& state);

/// Finishes the measures of a study, each on one thread of the pool. The results do not depend on threads,
/// shards or restarts.
[[nodiscard]] Results study_results(const StudyState& state, Pool& pool);

}  // namespace attnctl

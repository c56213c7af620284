#pragma once

#include <chrono>
#include <cstddef>

#include "base/pool.hpp"
#include "base/progress.hpp"
#include "results/results.hpp"
#include "study/run_study.hpp"

namespace attnctl {

struct PlanRequest {
  std::size_t nodes = 1;
  double seconds = 10;  // approximate time of the trials
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();  // of the command
};

/// Reads the corpus, measures blocks, and divides the study among nodes. The threads of the pool are those of
/// a node; trials use at most all cores of this process. Returns the plan as tables, a document and text.
/// Seconds are rounded to four significant digits.
[[nodiscard]] Results plan_study(const StudyInput& input, const PlanRequest& request, Pool& pool,
                                 Progress& progress);

}  // namespace attnctl

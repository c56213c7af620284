#pragma once

#include <vector>

#include "base/pool.hpp"
#include "base/progress.hpp"
#include "model/model.hpp"
#include "study/run_study.hpp"

namespace attnctl::study {

/// Returns the selected heads, the most important one first. To find the order, removes one head in each
/// step: the head whose removal, after that of all earlier heads, gives the smallest loss on the corpus.
/// n heads take as long as n (n + 1) / 2 sets of an ablation. Throws the errors of prepare_ablation() and
/// run_study().
[[nodiscard]] std::vector<model::HeadId> greedy_order(const StudyInput& input, Pool& pool,
                                                      Progress& progress);

}  // namespace attnctl::study

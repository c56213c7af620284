#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "base/pool.hpp"
#include "base/progress.hpp"
#include "forward/run.hpp"
#include "inspect/open_model.hpp"
#include "results/results.hpp"
#include "study/open_study.hpp"
#include "study/state/study_state.hpp"

// The comparison of two models or of two studies, as results.
namespace attnctl::study {

struct ModelComparison {
  ComparisonRequest request = {};
  bool match = false;  // compare each head with its best match in b, not with the head of the same name
  std::uint64_t seed = 0;
};

/// What a comparison runs with. All members are borrowed.
struct ComparisonContext {
  Pool& pool;
  Progress& progress;
  Warnings& warnings;
};

/// Compares the weights of the selected heads of a, of all weights and of the configurations with those of b.
/// Throws the errors of inspect::compare_models().
[[nodiscard]] Results compare_weights(const inspect::OpenModel& a, const inspect::OpenModel& b,
                                      const forward::Selection& selection, const ModelComparison& comparison,
                                      const ComparisonContext& context);

/// The models of two studies, borrowed.
struct StudyPair {
  OpenStudy& a;
  const OpenStudy& b;
};

/// Leaves out the measures that compare_states() does not use: `pairs`, which has no numbers of single heads.
void keep_comparable_measures(StudySettings& settings);

/// Joins the results of two finished studies with require_same_study() settings (compare_studies()). If their
/// `models` are known, adds the changes of the weights, if both have the same shape, and of what their heads
/// do on the corpus, if both read the same tokens. Adds the warnings of the studies. `measures_named` is true
/// if the measures were chosen. Throws Error(bad_input) or Error(usage) if the heads cannot be matched.
[[nodiscard]] Results compare_states(std::span<const StudyState> states, bool measures_named,
                                     const ModelComparison& comparison, const ComparisonContext& context,
                                     std::optional<StudyPair> models = {});

}  // namespace attnctl::study

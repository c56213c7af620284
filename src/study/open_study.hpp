#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/pool.hpp"
#include "base/progress.hpp"
#include "inspect/open_model.hpp"
#include "study/measure.hpp"
#include "study/run_study.hpp"
#include "study/state/study_state.hpp"

// A study of a model, from its request to its finished state.
namespace attnctl::study {

/// What to measure, before the model is open. Errors name the options of the command line.
struct StudyRequest {
  std::string measures;                     // names, separated by commas; empty: all that fit the corpus
  bool causal = false;                      // also the measures roles and ablation
  std::optional<std::size_t> batch_tokens;  // nullopt: by the size of the corpus
  inspect::HeadChoice heads;
  StudySettings settings;  // open_study() sets the measures, the selection and the rest of the corpus
};

/// Returns the names of the measures that use shuffled tokens, separated by commas.
[[nodiscard]] std::string order_measures();

/// Returns the measures of a request. By default, returns all measures, except those for which standard input
/// would be read twice, and adds a warning for them. Throws Error(usage) for an unknown measure, for a
/// measure that would need to read standard input twice, and if token frequencies are given but no measure
/// needs them. Adds a warning if no measure uses the random models or the shuffled tokens of the request.
[[nodiscard]] std::vector<const MeasureRow*> requested_measures(const StudyRequest& request,
                                                                Warnings& warnings);

/// The model of a study with its complete settings.
struct OpenStudy {
  StudySettings settings;
  inspect::OpenModel open;
  std::uint64_t memory = 0, used = 0;  // as in StudyInput

  [[nodiscard]] StudyInput input() {
    return {settings, open.model, open.vocabulary, open.encoder, memory, used};
  }
};
/// Completes the settings for a model, except those of an ablation. Without StudyRequest::measures, leaves
/// out measures whose annotation no input format can have, and, with a warning, those that are limited to
/// fewer heads than are selected. Throws Error(usage) for a measure that cannot be computed. `measures` are
/// those of requested_measures().
[[nodiscard]] OpenStudy open_study(StudyRequest request, std::vector<const MeasureRow*> measures,
                                   inspect::OpenModel open, Warnings& warnings);

struct CheckpointOptions {
  std::optional<std::string> path;
  double seconds = 60;  // shortest time between two checkpoints
};

/// Computes a shard of a study, or continues the one in the checkpoint, if this file exists. `note` receives
/// a line about the state that is continued.
[[nodiscard]] StudyState compute_study(OpenStudy& study, Pool& pool, Progress& progress,
                                       const Shard& shard = {}, const CheckpointOptions& checkpoint = {},
                                       const std::function<void(const std::string& line)>& note = {});

}  // namespace attnctl::study

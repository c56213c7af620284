#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/options/inputs.hpp"
#include "cli/options/options.hpp"
#include "cli/options/selection.hpp"
#include "study/corpus/corpus_blocks.hpp"
#include "study/measure.hpp"
#include "study/state/study_state.hpp"

namespace attnctl::cli {

/// The options that determine what a study computes, independent of how shards divide the work.
struct StudyScope {
  ModelOptions model;
  InputOptions inputs;
  SelectionOptions selection;
  std::string measures;
  std::optional<std::size_t> max_length, stride;
  std::size_t batch_tokens = CorpusOptions{}.batch_tokens;
  std::uint64_t seed = 0;
  bool skip_bad = false;
  bool fold_subtypes = false;
  std::size_t null_models = 0;
  std::size_t null_shuffles = 0;
  std::optional<std::string> frequencies;
};

/// Adds MODEL, --input and the other options of StudyScope.
void add_study_scope(Command& command, StudyScope& scope);
/// Throws Error(usage) if options contradict each other.
void require_study_scope(const StudyScope& scope);
/// Returns whether the corpus comes from standard input, so that it can be read only once.
[[nodiscard]] bool reads_standard_input(const StudyScope& scope);

/// Returns the measures of --measures. Default: all; measures that would read standard input twice are left
/// out with a warning. Throws Error(usage), also if no measure needs the given --frequencies.
[[nodiscard]] std::vector<const MeasureRow*> study_measures(const StudyScope& scope, Warnings& warnings);

[[nodiscard]] CorpusOptions corpus_options(const StudyScope& scope,
                                           std::span<const MeasureRow* const> measures);
/// Returns the header of a study as the options determine it. The caller adds the identity, the model and the
/// paths.
[[nodiscard]] StudyHeader study_header(const StudyScope& scope,
                                       const std::vector<const MeasureRow*>& measures, StudyShape shape);
/// Returns the files of the corpus, of the model and of --frequencies, for check_outputs().
[[nodiscard]] std::vector<std::filesystem::path> files_read(const StudyScope& scope);
/// Returns the list of measures, for --help.
[[nodiscard]] std::string measures_footer();

}  // namespace attnctl::cli

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

namespace CLI {
class App;
}

namespace attnctl::cli {

/// What a study is of: all that decides what is computed, whichever machine computes how much of it.
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

/// MODEL, --input and what else makes a StudyScope.
void add_study_scope(CLI::App& command, StudyScope& scope);
/// What the options exclude of each other. Throws Error(usage).
void require_study_scope(const StudyScope& scope);
/// Whether the corpus comes from standard input, and cannot be read again.
[[nodiscard]] bool reads_standard_input(const StudyScope& scope);

/// The measures of --measures. By default all, but those that would read standard input twice, with a
/// warning. Throws Error(usage), also for --frequencies that no measure needs.
[[nodiscard]] std::vector<const MeasureRow*> study_measures(const StudyScope& scope, Warnings& warnings);

[[nodiscard]] CorpusOptions corpus_options(const StudyScope& scope,
                                           std::span<const MeasureRow* const> measures);
/// What the options say of a study, apart from its identity and where things lie.
[[nodiscard]] StudyHeader study_header(const StudyScope& scope,
                                       const std::vector<const MeasureRow*>& measures, StudyShape shape);
/// Returns the files of the corpus, of the model and of --frequencies, for check_outputs().
[[nodiscard]] std::vector<std::filesystem::path> files_read(const StudyScope& scope);
/// The catalogue of measures, for --help.
[[nodiscard]] std::string measures_footer();

}  // namespace attnctl::cli

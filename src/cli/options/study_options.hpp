#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/warnings.hpp"
#include "cli/options/options.hpp"
#include "cli/session.hpp"
#include "study/run_study.hpp"

namespace attnctl::cli {

/// The options that `study` and `plan` share.
struct StudyScope {
  ModelOptions model;
  InputOptions inputs;
  SelectionOptions selection;
  std::string measures;
  StudySettings settings;  // without the measures, the heads and the corpus files
};

/// Adds MODEL, --input and the other options of StudyScope.
void add_study_scope(Command& command, StudyScope& scope);
/// Throws Error(usage) if options contradict each other.
void require_study_scope(const StudyScope& scope);
/// Returns whether the corpus comes from standard input, so that it can be read only once.
[[nodiscard]] bool reads_standard_input(const StudyScope& scope);

/// The model of a study with its complete settings.
struct OpenStudy {
  StudySettings settings;
  OpenModel open;

  [[nodiscard]] StudyInput input() { return {settings, open.model, open.vocabulary, open.encoder}; }
};
/// Opens the model. The measures are those of --measures. Default: all; measures that would read standard
/// input twice are left out with a warning. Throws Error(usage), also if no measure needs the given
/// --frequencies.
[[nodiscard]] OpenStudy open_study(const StudyScope& scope, Warnings& warnings);

/// Returns the files of the corpus, of the model and of --frequencies, for check_outputs().
[[nodiscard]] std::vector<std::filesystem::path> files_read(const StudyScope& scope);
/// Returns the list of measures, for --help.
[[nodiscard]] std::string measures_footer();

}  // namespace attnctl::cli

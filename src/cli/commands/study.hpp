#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/inputs.hpp"
#include "cli/session.hpp"
#include "study/open_study.hpp"
#include "study/run_study.hpp"
#include "study/state/study_state.hpp"

// The options and the run of a study, which `study`, `plan` and `compare` share.
namespace attnctl::cli {

/// The options of measures that remove heads.
struct AblationOptions {
  study::Replacement replacement = study::Replacement::mean;
  bool by_position = false;
  std::vector<std::string> mean_from;
  std::vector<std::string> sets = {"head"};
  std::string groups;  // --groups FILE
  std::string order;   // --order FILE:COLUMN or greedy[:FILE]
  std::size_t steps = 10;
  std::size_t null_sets = 10;
  std::optional<double> mask_rate;
  std::optional<std::string> answer, wrong;
};

/// open_study() sets StudyRequest::heads and the files of the corpus.
struct StudyScope : CommandOptions, study::StudyRequest {
  AblationOptions ablation;
  std::optional<std::string> config_file;
};
/// Adds the options of the corpus, the heads and the measures, without MODEL.
void add_study_scope(Command& command, StudyScope& scope);
/// Adds the options of the corpus and the heads.
void add_corpus_scope(Command& command, StudyScope& scope);

/// Returns the settings of a run that removes heads. Throws Error(usage) for options that do not fit
/// together, for --answer or --wrong that is not one token, and for unknown heads in --groups or --order.
/// `greedy` is the order of --order greedy; without it, there are no sets of the kind keep.
[[nodiscard]] study::AblationSettings ablation_settings(const StudyScope& scope, OpenModel& open,
                                                        const forward::Selection& selection,
                                                        const std::vector<model::HeadId>& greedy = {});
/// Returns the files that the options of an ablation name.
[[nodiscard]] std::vector<std::filesystem::path> ablation_files(const AblationOptions& options);

/// Returns whether the corpus comes from standard input, so that it can be read only once.
[[nodiscard]] bool reads_standard_input(const StudyScope& scope);

/// Throws Error(usage) without --input, if standard input is named twice, if --stride exceeds --max-length,
/// or if no measure has the column of --plot.
void require_study_scope(const StudyScope& scope);

/// Returns the files that a study reads, for check_outputs().
[[nodiscard]] std::vector<std::filesystem::path> study_files(const StudyScope& scope);

using study::OpenStudy;
/// Opens the model and completes the settings, also those of an ablation. Throws the errors of
/// study::open_study() and ablation_settings(), and Error(usage) if no measure has the column of --plot.
[[nodiscard]] OpenStudy open_study(const StudyScope& scope, Warnings& warnings);

/// Computes the order of --order greedy, if it is given, and adds the sets that it makes to the settings.
void order_greedily(const StudyScope& scope, OpenStudy& study, Session& session);

/// The options of `study` and `ablate`.
struct StudyOptions : StudyScope {
  std::string shard;
  std::optional<std::string> state;
  study::CheckpointOptions checkpoint;
  study::StudyThresholds thresholds;
};
void add_shard_options(Command& command, StudyOptions& options);
/// Adds the options of the output and of the resources.
void add_result_options(Command& command, CommandOptions& options);
void run_study_command(const StudyOptions& options);

/// Computes a shard of a study, or continues the one in the checkpoint, if this file exists.
[[nodiscard]] study::StudyState compute_study(OpenStudy& study, Session& session,
                                              const study::Shard& shard = {},
                                              const study::CheckpointOptions& checkpoint = {});

}  // namespace attnctl::cli

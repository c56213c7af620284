#include "cli/options/study_options.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/options/inputs.hpp"
#include "cli/options/selection.hpp"
#include "study/measure.hpp"

namespace attnctl::cli {
namespace {

constexpr std::size_t kProbeSequences = 32;

std::string measures_help() {
  std::string text = "Measures (default: all):";
  for (const MeasureRow& row : measure_catalogue()) text += fmt::format(" {},", row.name);
  text.pop_back();
  return text;
}

/// Returns the measures of --measures.
std::vector<const MeasureRow*> study_measures(const StudyScope& scope, Warnings& warnings) {
  std::vector<const MeasureRow*> measures = parse_measures(scope.measures);
  const bool needed = std::ranges::any_of(measures, &MeasureRow::needs_frequencies);
  if (scope.settings.frequencies && !needed)
    fail(Status::usage, "--frequencies: only the measure rare uses it; add rare to --measures");
  if (scope.settings.frequencies || !needed || !reads_standard_input(scope)) return measures;
  const char* const why =
      "reads the corpus twice, to count its tokens first; give a file, or --frequencies FILE";
  if (!scope.measures.empty()) fail(Status::usage, "--input -: the measure rare {}", why);
  std::erase_if(measures, [](const MeasureRow* row) { return row->needs_frequencies; });
  warnings.add("no_frequencies", fmt::format("skipped the measure rare: it {}", why), 1);
  return measures;
}

}  // namespace

void add_study_scope(Command& command, StudyScope& scope) {
  add_model_options(command, scope.model);
  add_file_options(command, scope.inputs);
  command.add(
      "Corpus",
      {number("--max-length", &scope.settings.corpus.max_length,
              "Largest number of tokens per sentence (default: the model's number of positions)", positive()),
       number("--stride", &scope.settings.corpus.stride,
              "Split longer sentences into windows that start this many tokens apart, instead of failing",
              positive()),
       number("--batch-tokens", &scope.settings.corpus.batch_tokens,
              "Largest number of tokens per block; a worker computes one block at a time", positive()),
       {.names = "--skip-bad",
        .target = &scope.settings.corpus.skip_bad,
        .help = "Skip and list sentences that are damaged or too long (default: stop at the first one)"}});
  add_head_options(command, scope.selection);
  command.add("Selection",
              {{"--measures", &scope.measures, measures_help(), "LIST"},
               number("--seed", &scope.settings.seed, "Seed of measures that draw at random"),
               {"--fold-subtypes", &scope.settings.fold_subtypes,
                "For the measure syntax: remove subtypes of relations, such as pass from nsubj:pass"},
               {.names = "--null-model",
                .target = &scope.settings.null_models,
                .help = "Roles must also exceed those of N models of the same shape with shuffled weights",
                .type = "N",
                .range = Range{0, 1000}},
               {.names = "--null-shuffle",
                .target = &scope.settings.null_shuffles,
                .help = "Roles that depend on the order of tokens must also exceed the values of the same "
                        "head on N copies of every sentence with shuffled tokens",
                .type = "N",
                .range = Range{0, 1000}},
               {"--frequencies", &scope.settings.frequencies,
                "For the measure rare: file with lines TOKEN<TAB>COUNT (default: count the tokens of the "
                "corpus first)",
                "FILE"}});
}

bool reads_standard_input(const StudyScope& scope) {
  return std::ranges::any_of(scope.inputs.items, [](const InputItem& item) { return item.value == "-"; });
}

void require_study_scope(const StudyScope& scope) {
  require_inputs(scope.inputs, "--input");
  if (scope.settings.corpus.stride && scope.settings.corpus.max_length &&
      *scope.settings.corpus.stride > *scope.settings.corpus.max_length)
    fail(Status::usage, "--stride: got {}, need at most --max-length {}", *scope.settings.corpus.stride,
         *scope.settings.corpus.max_length);
}

OpenStudy open_study(const StudyScope& scope, Warnings& warnings) {
  std::vector<const MeasureRow*> measures = study_measures(scope, warnings);
  OpenStudy study{scope.settings, open_model(scope.model, warnings)};
  StudySettings& settings = study.settings;
  settings.selection = select_heads(scope.selection, study.open.model.config(), false);
  if (std::ranges::any_of(measures, &MeasureRow::probe_only))
    settings.corpus.probe = {.sequences = kProbeSequences, .seed = settings.seed};
  for (const InputItem& item : scope.inputs.items)
    settings.corpus.files.push_back({item.value, input_format(item.value, scope.inputs)});
  if (scope.measures.empty()) measures = within_limit(measures, settings.selection.heads.size(), warnings);
  settings.measures = std::move(measures);
  return study;
}

std::vector<std::filesystem::path> files_read(const StudyScope& scope) {
  std::vector<std::filesystem::path> files = files_read(scope.model, scope.inputs);
  if (scope.settings.frequencies) files.emplace_back(*scope.settings.frequencies);
  return files;
}

std::string measures_footer() {
  std::string text = "Measures:\n";
  for (const MeasureRow& row : measure_catalogue())
    text += fmt::format("  {:<10} {}\n", row.name, row.description);
  return text;
}

}  // namespace attnctl::cli

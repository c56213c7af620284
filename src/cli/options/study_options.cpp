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
  std::string text = "what to measure (default: all):";
  for (const MeasureRow& row : measure_catalogue()) text += fmt::format(" {},", row.name);
  text.pop_back();
  return text;
}

/// Returns the measures of --measures.
std::vector<const MeasureRow*> study_measures(const StudyScope& scope, Warnings& warnings) {
  std::vector<const MeasureRow*> measures = parse_measures(scope.measures);
  const bool needed = std::ranges::any_of(measures, &MeasureRow::needs_frequencies);
  if (scope.settings.frequencies && !needed)
    fail(Status::usage, "--frequencies: is for the measure rare, which --measures leaves out");
  if (scope.settings.frequencies || !needed || !reads_standard_input(scope)) return measures;
  const char* const why =
      "needs the corpus twice, to count its tokens first; give a file, or --frequencies FILE";
  if (!scope.measures.empty()) fail(Status::usage, "--input -: the measure rare {}", why);
  std::erase_if(measures, [](const MeasureRow* row) { return row->needs_frequencies; });
  warnings.add("no_frequencies", fmt::format("the measure rare is left out: it {}", why), 1);
  return measures;
}

}  // namespace

void add_study_scope(Command& command, StudyScope& scope) {
  add_model_options(command, scope.model);
  add_file_options(command, scope.inputs);
  command.add(
      "Corpus",
      {number("--max-length", &scope.settings.corpus.max_length,
              "tokens of a sentence, at most (default: the model's positions)", positive()),
       number("--stride", &scope.settings.corpus.stride,
              "cut longer sentences into windows that begin so many tokens apart, not refuse them",
              positive()),
       number("--batch-tokens", &scope.settings.corpus.batch_tokens,
              "tokens of a block, the sentences that one worker computes at a time", positive()),
       {.names = "--skip-bad",
        .target = &scope.settings.corpus.skip_bad,
        .help =
            "leave out sentences that are damaged or too long, and list them; else the first one stops the "
            "run"}});
  add_head_options(command, scope.selection);
  command.add(
      "Selection",
      {{"--measures", &scope.measures, measures_help(), "LIST"},
       number("--seed", &scope.settings.seed, "of measures that draw at random"),
       {"--fold-subtypes", &scope.settings.fold_subtypes,
        "of syntax: relations without their subtypes, nsubj:pass as nsubj"},
       {.names = "--null-model",
        .target = &scope.settings.null_models,
        .help = "roles must also exceed those of N models of the same shape with shuffled weights",
        .type = "N",
        .range = Range{0, 1000}},
       {.names = "--null-shuffle",
        .target = &scope.settings.null_shuffles,
        .help = "roles that depend on which token stands where must also exceed what the same head does over "
                "every sentence N times more, its tokens in random order",
        .type = "N",
        .range = Range{0, 1000}},
       {"--frequencies", &scope.settings.frequencies,
        "of rare: FILE of lines TOKEN<TAB>COUNT (default: the tokens of the corpus, counted first)",
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
  if (std::ranges::any_of(measures, &MeasureRow::of_probe))
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

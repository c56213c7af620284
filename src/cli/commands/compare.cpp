#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/commands/study.hpp"
#include "study/compare_models.hpp"

namespace attnctl::cli {
namespace {

struct CompareOptions : StudyScope {
  std::string a, b;  // models or, without --input, state files
  std::optional<std::size_t> top;
  bool match = false;
};

study::ModelComparison comparison_of(const CompareOptions& options) {
  return {{.top = options.top, .plot = options.output.plot}, options.match, options.settings.seed};
}

/// Returns the one file that matches a pattern. Throws Error(usage) if several files match.
std::string matching_file(const std::string& pattern) {
  const std::vector<std::string> files = matching_files(pattern);
  if (files.size() == 1) return files[0];
  fail(Status::usage, "{}: matches {} files, need one", escaped(pattern), files.size());
}

/// Reads a state file. Throws Error if not all blocks of the study are done.
study::StudyState finished_state(const std::string& file) {
  study::StudyState state = study::StudyState::read(file);
  if (!state.complete())
    fail(Status::bad_input,
         "{}: the study is not finished ({}); give a state with all blocks, such as that of attnctl merge "
         "--state",
         escaped(file), state.done_text());
  return state;
}

study::StudyState computed_state(const StudyScope& scope, Session& session) {
  OpenStudy study = open_study(scope, session.warnings);
  if (scope.measures.empty()) study::keep_comparable_measures(study.settings);
  return compute_study(study, session);
}

/// Returns whether an argument is a state file, or a pattern of state files.
bool names_study(const std::string& given) {
  return given.find_first_of("*?[") != std::string::npos || study::StudyState::is_state(given);
}

/// Sets the two models. If B is the directory of an adapter, the second model is A with this adapter.
template <typename Options>
void name_models(const CompareOptions& options, std::vector<Options>& both) {
  both[0].model.model = options.a;
  both[1].model.model = options.b;
  if (!checkpoint::is_adapter(options.b)) return;
  both[1].model.model = options.a;
  both[1].model.adapter = options.b;
}

/// Compares the weights of two models.
void compare_weights(const CompareOptions& options) {
  std::vector<CommandOptions> both(2, options);
  name_models(options, both);
  std::vector<std::filesystem::path> files;
  for (const CommandOptions& each : both) std::ranges::move(files_read(each), std::back_inserter(files));
  const Target target = resolve_target(options.output, files);
  Session session(options.run);
  const OpenModel a = open_model(both[0].model, session.warnings);
  const OpenModel b = open_model(both[1].model, session.warnings);
  const forward::Selection selection = inspect::select_heads(options.selection, a.model.config());
  ResultWriter writer(target, options.output, session);
  Results results = study::compare_weights(a, b, selection, comparison_of(options),
                                           {session.pool, session.progress, session.warnings});
  writer.write("attnctl.comparison/2", std::move(results));
  print_warnings(session);
}

void compare(const CompareOptions& options) {
  const bool models = !options.inputs.items.empty();
  if (models) require_study_scope(options);
  if (reads_standard_input(options))
    fail(Status::usage, "--input -: compare reads the corpus once for each model; give a file");
  if (writes_picture(options.output) && options.output.plot.empty())
    fail(Status::usage, "a picture needs --plot COLUMN, such as --plot entropy");
  std::vector<StudyScope> scopes(2, options);
  name_models(options, scopes);
  std::vector<std::filesystem::path> files = {options.a, options.b};
  for (const StudyScope& scope : scopes)
    if (models) std::ranges::move(study_files(scope), std::back_inserter(files));
  const Target target = resolve_target(options.output, files);
  Session session(options.run);
  OutputOptions output = options.output;
  output.plot.clear();  // compare_studies() makes the picture
  ResultWriter writer(target, output, session);
  Warnings repeated;
  if (models) (void)open_study(scopes[1], repeated);  // fails before the first model is computed
  std::vector<study::StudyState> states;
  for (const StudyScope& scope : scopes)
    states.push_back(models ? computed_state(scope, session) : finished_state(scope.model.model));
  study::require_same_study(states[1].header(), escaped(options.b), states[0].header(), escaped(options.a),
                            true);
  std::vector<OpenStudy> open;
  for (const StudyScope& scope : scopes)
    if (models) open.push_back(open_study(scope, repeated));
  writer.write(
      "attnctl.comparison/2",
      study::compare_states(states, !options.measures.empty(), comparison_of(options),
                            {session.pool, session.progress, session.warnings},
                            models ? std::optional(study::StudyPair{open[0], open[1]}) : std::nullopt));
  print_warnings(session);
}

}  // namespace

Command compare_command() {
  Command command{.name = "compare",
                  .about = "Compare the weights of two models, their behaviour, or two studies"};
  auto options = std::make_shared<CompareOptions>();
  add_study_scope(command, *options);
  const std::set<std::string> of_weights = {"--input", "--config-file", "--component", "--layers", "--heads"};
  for (Option& option : command.options)
    if (!of_weights.contains(option.names)) option.needs = "--input";
  const auto argument = [&command](const char* name, std::string& target, const char* help) {
    command.add({{.names = name, .target = &target, .help = help, .type = "MODEL|STATE", .required = true}});
  };
  argument(
      "A", options->a,
      "A model, as MODEL of attnctl analyze. Without --input also a state file of attnctl study --state, "
      "or a quoted pattern that matches one");
  argument("B", options->b,
           "The model or study to compare with A; the differences are B - A. The directory of a LoRA adapter "
           "means A with this adapter");
  options->output.default_table = "differences";
  add_document_options(command, options->output,
                       {"json", "jsonl", "csv", "svg", "png", "pdf", "html", "text"});
  add_table_option(command, options->output,
                   "heads,projections,weights,config,behaviour,metric_changes,output,differences,roles",
                   "heads of two models without --input, else differences");
  add_plot_option(command, options->output);
  command.add("Output", {{"--top", [options](const std::string& word) { options->top = parse_top(word); },
                          "With text: largest number of heads per column, and of changed roles, or all "
                          "(default: text of about 40 lines)",
                          "NUMBER|all"}});
  command.add("Selection",
              {{"--match", &options->match,
                "Compare each head with its best match in B instead of the head with the same "
                "name, by weights or, with --input, by patterns, and say whether the matches are "
                "better than random ones"}});
  add_worker_options(command, options->run);
  command.footer =
      "Without --input, the weights of two models of the same shape are compared. With --input, the models "
      "run on a corpus. Two studies must have the same corpus, measures and other settings. Heads with the "
      "same layer and number are compared.\n"
      "Examples:\n"
      "  attnctl compare data/tiny-llama data/tiny-llama --format text\n"
      "  attnctl compare data/tiny-bert data/tiny-llama --input data/sentences.txt --format text\n"
      "  attnctl compare data/tiny-bert data/tiny-llama --input data/sentences.txt --measures metrics "
      "--plot entropy -o entropy.svg\n"
      "  attnctl study data/tiny-bert --input data/sentences.txt --state a.state && attnctl study "
      "data/tiny-llama --input data/sentences.txt --state b.state && attnctl compare a.state b.state "
      "--format text";
  command.action = [options] {
    if (!options->inputs.items.empty()) return compare(*options);
    const bool a = names_study(options->a), b = names_study(options->b);
    if (a != b)
      fail(Status::usage, "{} is a study and {} is not; give two models, or two studies",
           escaped(a ? options->a : options->b), escaped(a ? options->b : options->a));
    if (!a) {
      options->output.default_table = "heads";
      return compare_weights(*options);
    }
    const SelectionOptions& heads = options->selection;
    if (!heads.component.empty() || !heads.layers.empty() || !heads.heads.empty())
      fail(Status::usage, "--component, --layers, --heads: only models have these options, not two studies");
    for (std::string* const file : {&options->a, &options->b}) *file = matching_file(*file);
    compare(*options);
  };
  return command;
}

}  // namespace attnctl::cli

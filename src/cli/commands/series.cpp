#include "study/series.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/interrupt.hpp"
#include "cli/commands.hpp"
#include "cli/commands/study.hpp"
#include "study/compare_models.hpp"
#include "study/measure.hpp"

namespace attnctl::cli {
namespace {

namespace fs = std::filesystem;

struct SeriesOptions : StudyScope {
  std::vector<std::string> models;
  std::optional<std::string> keep, watch;
  double wait = 10;  // seconds between two looks at --watch
  std::string map;
  std::optional<std::size_t> top;
};

/// A checkpoint of the series, and the file that keeps its study; empty: none.
struct SeriesMember {
  std::string model;
  std::int64_t step = 0;
  std::string state;
};

/// The folders in --watch that have a config.json.
std::vector<std::string> watched_models(const std::string& folder) {
  std::vector<std::string> models;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (fs::exists(entry->path() / "config.json", ignored)) models.push_back(entry->path().native());
  }
  if (error) fail(Status::environment, "--watch {}: {}", escaped(folder), error.message());
  std::ranges::sort(models);
  return models;
}

/// Returns the checkpoints by step. If a name has no number, or two have the same one, the steps are 0, 1,
/// ... in the order given.
std::vector<SeriesMember> members_of(const SeriesOptions& options) {
  std::vector<SeriesMember> members;
  std::set<std::int64_t> steps;
  std::set<std::string> states;
  bool numbered = true;
  const auto add = [&](const std::string& model) {
    const auto step = study::step_in_name(model);
    numbered = numbered && step && steps.insert(*step).second;
    SeriesMember& member = members.emplace_back(SeriesMember{model, step.value_or(0), {}});
    if (!options.keep) return;
    const fs::path path = fs::path(model).lexically_normal();
    const fs::path name = path.has_filename() ? path.filename() : path.parent_path().filename();
    member.state = (fs::path(*options.keep) / (name.native() + ".state")).native();
    if (!states.insert(member.state).second)
      fail(Status::usage, "--keep: two checkpoints have the name {}; rename one of them",
           escaped(name.native()));
  };
  for (const std::string& given : options.models)
    for (const std::string& model : matching_files(given)) add(model);
  if (options.watch)
    for (const std::string& model : watched_models(*options.watch)) add(model);
  for (std::size_t i = 0; !numbered && i < members.size(); ++i)
    members[i].step = static_cast<std::int64_t>(i);
  std::ranges::stable_sort(members, {}, &SeriesMember::step);
  return members;
}

StudyScope scope_of(const SeriesOptions& options, const SeriesMember& member) {
  StudyScope scope = options;
  scope.model.model = member.model;
  return scope;
}

bool is_state(const SeriesMember& member) {
  return study::StudyState::is_state(member.model);
}

/// Reads or computes the study of a checkpoint.
study::StudyState study_of(const SeriesOptions& options, const SeriesMember& member, Session& session,
                           Warnings& warnings) {
  if (is_state(member)) {
    study::StudyState state = study::StudyState::read(member.model);
    if (!state.complete())
      fail(Status::bad_input, "{}: the study is not finished ({}); run it again with --checkpoint or --keep",
           escaped(member.model), state.done_text());
    return state;
  }
  OpenStudy study = open_study(scope_of(options, member), warnings);
  if (options.measures.empty()) study::keep_comparable_measures(study.settings);
  study::CheckpointOptions kept;
  if (!member.state.empty()) kept.path = member.state;
  return compute_study(study, session, {}, kept);
}

/// Reads or computes the studies of all checkpoints, and writes the results.
void write_series(const SeriesOptions& options, const std::vector<SeriesMember>& members) {
  std::vector<fs::path> files;
  std::vector<OutputPath> outputs;
  for (const SeriesMember& member : members) {
    if (is_state(member))
      files.emplace_back(member.model);
    else
      std::ranges::move(study_files(scope_of(options, member)), std::back_inserter(files));
    if (!member.state.empty()) outputs.push_back({"--keep", member.state});
  }
  const Target target = resolve_target(options.output, files, std::move(outputs));
  Session session(options.run);
  OutputOptions output = options.output;
  output.plot.clear();  // series_results() makes the pictures
  ResultWriter writer(target, output, session);
  if (options.keep) {
    std::error_code error;
    fs::create_directories(*options.keep, error);
    if (error) fail(Status::environment, "--keep {}: {}", escaped(*options.keep), error.message());
  }
  std::deque<study::StudyState> states;  // the results refer to them
  std::vector<study::SeriesCheckpoint> checkpoints;
  Warnings repeated;
  for (const SeriesMember& member : members) {
    Warnings& warnings = states.empty() ? session.warnings : repeated;
    states.push_back(study_of(options, member, session, warnings));
    study::require_same_study(states.back().header(), escaped(member.model), states.front().header(),
                              escaped(members.front().model), true);
    states.back().check_data(!options.measures.empty(), warnings);
    checkpoints.push_back({member.model, member.step, study::study_results(states.back(), session.pool)});
  }
  std::optional<InterruptHold> hold;
  if (options.watch) hold.emplace();  // a signal still ends the wait for the next checkpoint
  writer.write("attnctl.series/2", study::series_results(checkpoints, {options.top, options.output.plot,
                                                                       options.map, options.settings.seed}));
  print_warnings(session);
}

void series(const SeriesOptions& options) {
  const std::vector<SeriesMember> given = members_of(options);
  const auto states = static_cast<std::size_t>(std::ranges::count_if(given, is_state));
  if (states > 0 && (states < given.size() || options.keep || options.watch || !options.inputs.items.empty()))
    fail(Status::usage,
         "{} is a study: give only studies, without --input, --keep and --watch, or only models",
         escaped(std::ranges::find_if(given, is_state)->model));
  if (states > 0) return write_series(options, given);
  require_study_scope(options);
  if (reads_standard_input(options))
    fail(Status::usage, "--input -: series reads the corpus once for each checkpoint; give a file");
  if (options.models.empty() && !options.watch)
    fail(Status::usage, "need at least one MODEL, or --watch DIR");
  if (!options.watch) return write_series(options, given);
  if (!options.keep || options.output.path.empty())
    fail(Status::usage,
         "--watch: also needs --keep DIR for the studies, and -o PATH, which is written again after "
         "each new checkpoint");
  std::string failed;  // the last error, which is told once
  for (std::size_t known = 0;;) {
    const std::vector<SeriesMember> members = members_of(options);
    if (members.size() > known) {
      try {
        write_series(options, members);
        known = members.size();
        failed.clear();
      } catch (const Error& error) {
        // The new checkpoint may be incomplete.
        if (error.status() != Status::bad_input && error.status() != Status::environment) throw;
        if (failed != error.what()) std::fprintf(stderr, "attnctl: waits: %s\n", error.what());
        failed = error.what();
      }
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.wait);
    while (std::chrono::steady_clock::now() < end) {
      throw_if_interrupted();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

}  // namespace

Command series_command() {
  Command command{.name = "series", .about = "Follow each head over the checkpoints of a training"};
  auto options = std::make_shared<SeriesOptions>();
  command.add(
      {{.names = "MODEL",
        .target = &options->models,
        .help = "The checkpoints, each as MODEL of attnctl analyze, or their studies, written with --keep "
                "or attnctl study --state; also quoted patterns such as 'run/checkpoint-*'. They are "
                "sorted by the last number in their names",
        .type = "MODEL|STATE"}});
  add_study_scope(command, *options);
  command.add(
      "Restarts",
      {{"--keep", &options->keep,
        "Keep the study of each checkpoint in DIR; a finished one is not computed again, and an "
        "interrupted one is continued",
        "DIR"},
       {"--watch", &options->watch,
        "Also use each folder in DIR that has a config.json, wait for new ones, and write -o again after "
        "each, until Ctrl-C",
        "DIR"},
       number("--watch-every", &options->wait, "Seconds between two looks at --watch", non_negative())});
  options->output.default_table = "series";
  add_document_options(command, options->output,
                       {"json", "jsonl", "csv", "svg", "png", "pdf", "html", "text"});
  add_table_option(command, options->output, "checkpoints,series,changes,role_steps");
  add_plot_option(command, options->output);
  command.add(
      "Output",
      {{"--map", &options->map,
        "With a picture: draw the mean of this column over the heads of each layer, by layer and step",
        "COLUMN"},
       {"--top", [options](const std::string& word) { options->top = parse_top(word); },
        "With text: largest number of roles, and of heads per column, or all", "NUMBER|all"}});
  add_worker_options(command, options->run);
  command.footer =
      "Each checkpoint is studied with the options of attnctl study. --plot COLUMN draws a line for each "
      "head.\n"
      "Examples:\n"
      "  attnctl series data/tiny-llama data/tiny-llama data/tiny-llama --input data/sentences.txt "
      "--measures "
      "metrics --format text";
  command.action = [options] { series(*options); };
  return command;
}

}  // namespace attnctl::cli
